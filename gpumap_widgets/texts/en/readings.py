"""How other tools read the same value: what they do, and what follows for one scenario."""

SENTENCES = {
    # what stands in place of a list
    "reading.asks": "asks the driver",
    "reading.no-uuids": "not known: the description of the machine lacks UUIDs",
    # how a tool asks for one GPU, at the beginning of a sentence
    "reading.call.torch-count": "torch.cuda.device_count()",
    "reading.call.torch-nvml": "torch.cuda.utilization({ordinal})",
    "reading.call.nvitop": "nvitop's CUDA device {ordinal}",
    "reading.call.dask-cuda": "dask-cuda's worker {ordinal}",
    "reading.call.vllm": "vLLM, asking NVML for cuda:{ordinal},",
    "reading.call.deepspeed": "DeepSpeed's available_memory({ordinal})",
    "reading.call.ray": "Ray's worker {ordinal}",
    "reading.call.split": "the number in entry {ordinal}",
    "reading.call.gpustat": "gpustat, asked for GPU {ordinal},",
    # how a tool reads the list
    "reading.how.driver": "It orders the GPUs by CUDA_DEVICE_ORDER, picks by CUDA_VISIBLE_DEVICES and numbers what is left.",
    "reading.how.torch-count": "Before CUDA has started it reads the list itself and counts against NVML; MIG names it leaves to the driver. Once CUDA has started it asks the driver.",
    "reading.how.torch-nvml": "utilization, memory_usage, temperature, power_draw, clock_rate, device_memory_used and list_gpu_processes take an entry of the list for an nvidia-smi number and never look at CUDA_DEVICE_ORDER.",
    "reading.how.nvitop": "It asks the driver in a process of its own. Only where that fails it reads the list itself: numbers as nvidia-smi's, complete UUIDs only, at most one MIG device.",
    "reading.how.dask-cuda": "Every entry must be a number or begin with GPU- or MIG-; nothing ends the list and repeats count. Numbers are nvidia-smi's for its memory limit and CPU affinity.",
    "reading.how.vllm": "Numbers are nvidia-smi's, UUIDs must be complete, nothing ends the list; set to nothing is as good as unset. It asks NVML for model and capability, and works on cuda:i.",
    "reading.how.deepspeed": "It calls int() on every entry and takes the result for an nvidia-smi number, to ask for free memory.",
    "reading.how.ray": "Entries are text to it: none is checked, and each goes to a worker as its whole list, which the driver then reads. It hands out no more than NVML counts.",
    "reading.how.jax": "Without its own option jax_cuda_visible_devices it takes what CUDA shows.",
    "reading.how.split": "A program that splits at the commas, calls int() and takes the result for an nvidia-smi number.",
    "reading.how.gpustat": "They list every GPU in the order of nvidia-smi and ignore both variables.",
    # naming a GPU
    "reading.gpu": "nvidia-smi {index} ({name})",
    "reading.gpu-no-index": "{name}",
    "reading.no-gpu": "no GPU at all",
    # what follows here
    "reading.is-driver": "The driver decides what cuda:i is; the other rows are measured by it.",
    "reading.asks-driver": "The driver answers, so it sees what CUDA sees.",
    "reading.same": "As the driver: {call} reads {gpu}, which is cuda:{ordinal}.",
    "reading.same-none": "As the driver: nothing is visible.",
    "reading.other": "{call} reads {gpu}, cuda:{ordinal} is {ours}.",
    "reading.whole": "{call} reads all of {gpu}, cuda:{ordinal} is only {ours}.",
    "reading.other-length": "Devices that it names: {count}; that the driver shows: {driver}.",
    "reading.alone": "{call} reads {gpu}; what cuda:{ordinal} is cannot be told.",
    "reading.not-known": "This cannot be told here.",
    "reading.raises-same": "Nothing is visible, so there is no cuda:0 to ask for; {call} ends in {shown}.",
    "reading.raises-other": "{call} ends in {shown}; devices that the driver shows: {driver}.",
    "reading.raises-alone": "{call} ends in {shown}; what the driver shows cannot be told.",
    "reading.count-same": "As the driver: {count}. A count does not say which.",
    "reading.count-other": "{call} says {count}; devices that the driver shows: {driver}.",
    "reading.count-alone": "{call} says {count}; what the driver shows cannot be told.",
}
