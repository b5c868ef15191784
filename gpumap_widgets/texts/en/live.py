"""What a live run says, and how a prediction and an observation compare."""

SENTENCES = {
    # why there is no answer, and what to do
    "live.refused": "Nothing was run, because this would not start at all: {reason}",
    "live.no-jupyter-client": (
        "jupyter_client cannot be loaded here ({error}): install it with {executable} -m pip install jupyter_client."
    ),
    "live.no-ipykernel": "No ipykernel in {executable}: install it with {executable} -m pip install ipykernel.",
    "live.no-kernelspec": "There is no kernel named {name}; these are installed: {known}.",
    "live.not-python": "The kernel {name} speaks {language}: choose one for Python, with torch in it.",
    "live.not-launched": (
        "The kernel's program cannot be started ({error}): repair its kernelspec or the value, "
        "or choose the kernel of this interpreter."
    ),
    "live.no-start": "The kernel did not start (status {status}); its last words say why: {tail}",
    "live.slow-start": "The kernel was not up after {seconds} s and was ended: try again, or give it more time.",
    "live.died": "The kernel died before it answered (status {status}). Try again; if it dies again, its last words may say why: {tail}",
    "live.timed-out": (
        "No answer within {seconds} s, so the kernel was ended: the driver may hang (does nvidia-smi answer?), "
        "or it needs more time."
    ),
    "live.cancelled": "Cancelled after {seconds} s; the kernel is gone.",
    "live.failed": "The run failed on this side: {error}",
    "live.unreadable": "The kernel's answer cannot be read ({error}): try the kernel of this interpreter instead.",
    "live.no-torch": "No torch in {executable}: install it with {executable} -m pip install torch.",
    "live.broken-torch": "torch cannot be loaded in {executable} ({error}): reinstall it there.",
    "live.cpu-build": (
        "torch {version} in {executable} is built without CUDA: install a CUDA build, "
        "as the selector at pytorch.org/get-started/locally shows it."
    ),
    "live.rocm-build": (
        "torch {version} in {executable} is built for AMD's ROCm, where CUDA_VISIBLE_DEVICES has other rules: "
        "install a CUDA build to ask an NVIDIA driver."
    ),
    "live.no-driver": (
        "No NVIDIA driver on this machine (libcuda is not found): "
        "install the driver, or run this where nvidia-smi works."
    ),
    "live.driver-broken": (
        "The NVIDIA driver's library cannot be loaded ({error}): the driver is installed in part, or for another "
        "system. Reinstall it, or check LD_LIBRARY_PATH."
    ),
    "live.driver-call": "CUDA starts, and then its driver refuses {call}: {code} ({name}). Check whether nvidia-smi works.",
    "live.child-not-launched": "The program that asks the driver cannot be started ({error}).",
    "live.child-died": "The program that asks the driver died before it answered (status {status}). Its last words: {tail}",
    "live.child-timed-out": (
        "The driver did not answer within {seconds} s, so the program that asks it was ended: does nvidia-smi answer?"
    ),
    # the footprint
    "live.footprint-held": "Held for a moment by process {pid}, one after the other, and found by NVML: {held}.",
    "live.footprint-no-nvml": "No footprint: NVML does not answer here ({error}), and only NVML tells where memory is held.",
    "live.footprint-hidden": (
        "No footprint: NVML shows this machine's processes under other numbers or not at all, as inside a container "
        "with PIDs of its own or behind MPS. On the host itself it can be seen."
    ),
    "live.footprint-hidden-in": (
        "No footprint: this is inside a container ({kind}), and NVML shows no process of it. Started with the host's "
        "PIDs (--pid=host), or on the host itself, it can be seen."
    ),
    "live.footprint-unclear": "No footprint: it cannot be told where the {mib} MiB on cuda:{ordinal} showed; something else changed meanwhile.",
    "live.footprint-context": "No footprint: cuda:{ordinal} gives no context: {code} ({name}). It may be in exclusive use.",
    "live.footprint-memory": "No footprint: cuda:{ordinal} has no {mib} MiB to spare: {code} ({name}).",
    # launchers
    "live.not-a-launcher": "Only torchrun, accelerate and deepspeed are started, not: {command}",
    "live.launch-elsewhere": "Nothing was started: {option} brings in other machines, and only this one is asked.",
    "live.no-launcher": "No {launcher} here, neither on PATH nor beside {executable}: install it there to have it started.",
    "live.launcher-failed": "{launcher} ended without a worker that answered (status {status}); its last words: {tail}",
    "live.launcher-timed-out": "The launcher's workers did not all answer within {seconds} s, so they were ended.",
    "live.worker-silent": "The worker with rank {rank} gave no answer: {launcher} started it and it died, or never did.",
    # why a kernel that waited was not used
    "live.spare-closed": "The kernel that waited was closed.",
    "live.spare-died": "The kernel that waited could not be used, so a fresh one was asked: {reason}",
    "live.spare-spoilt": "The kernel that waited was no longer untouched ({what}), so a fresh one was asked.",
    "live.spare-outdated": "This process's variables have changed since the waiting kernel was started ({names}), so a fresh one was asked.",
    "live.spare-old-torch": "torch on disk has changed since the waiting kernel loaded it, so a fresh one was asked.",
    "live.spare-unlike": "The kernel that waited did not say what the driver says, so a fresh one was asked.",
    "live.no-device": "CUDA finds no GPU on this machine (cuInit 100, CUDA_ERROR_NO_DEVICE): run this on one that has one.",
    "live.no-device-unclear": (
        "CUDA finds no GPU (cuInit 100, CUDA_ERROR_NO_DEVICE), and NVML does not answer, so nobody can tell whether "
        "the list hides them all or there is none: check with nvidia-smi."
    ),
    "live.not-opened": (
        "CUDA can open no GPU (cuInit 100, CUDA_ERROR_NO_DEVICE) although NVML counts {count}: look for a lost GPU in "
        "nvidia-smi, and for missing rights or device files in /dev (nvidia*)."
    ),
    "live.old-driver": (
        "The driver is too old for this torch: it serves CUDA {driver}, torch is built for {cuda}. "
        "Update the driver, or install a torch for CUDA {driver}."
    ),
    "live.torch-failed": "CUDA starts, but torch cannot use it: {error}",
    "live.cuinit": "CUDA failed to start: cuInit {code} ({name}). Check whether nvidia-smi works.",
    "live.cuinit-34": (
        "CUDA failed to start: cuInit 34 ({name}). The toolkit's stub library stands in for the driver: "
        "take its stubs folder out of LD_LIBRARY_PATH."
    ),
    "live.cuinit-101": (
        "CUDA failed to start: cuInit 101 ({name}). A device is not usable: check nvidia-smi for a GPU in an error "
        "state or in MIG mode without instances."
    ),
    "live.cuinit-304": (
        "CUDA failed to start: cuInit 304 ({name}). A system call failed: check the rights on /dev/nvidia* and the "
        "system's log."
    ),
    "live.cuinit-802": (
        "CUDA failed to start: cuInit 802 ({name}). On machines with NVSwitch the fabric manager must run: "
        "systemctl status nvidia-fabricmanager."
    ),
    "live.cuinit-803": (
        "CUDA failed to start: cuInit 803 ({name}). The driver in the kernel and its libraries have different "
        "versions: reboot after a driver update, or update the container's."
    ),
    "live.cuinit-804": (
        "CUDA failed to start: cuInit 804 ({name}). A forward compatibility package is in use that this GPU does not "
        "support: take /usr/local/cuda/compat out of LD_LIBRARY_PATH."
    ),
    "live.cuinit-999": (
        "CUDA failed to start: cuInit 999 ({name}). Often after sleep or an update, or without rights on "
        "/dev/nvidia-uvm: reload the driver or reboot."
    ),
    # devices in words
    "compare.gpu": "the {name}",
    "compare.gpu-at": "the {name} at {at}",
    "compare.gpu-index": "the {name} (nvidia-smi {index})",
    "compare.slice": "the slice {profile} of {gpu}",
    "compare.two": "{first} {second}",
    # edges
    "compare.differs": "cuda:{ordinal} is {seen}, foretold was {foretold}.",
    "compare.missing": "cuda:{ordinal} does not exist, foretold was {foretold}.",
    "compare.surplus": "cuda:{ordinal} is {seen}, foretold was no such device.",
    "compare.stranger": "cuda:{ordinal} is {seen}, a GPU that the description does not have; foretold was {foretold}.",
    "compare.not-joined": "Nothing tells whether cuda:{ordinal}, {seen}, is the foretold one, {foretold}.",
    "compare.slice-unclear": "Nothing tells whether cuda:{ordinal}, on {seen}, is the foretold one, {foretold}.",
    # verdicts
    "compare.error": "Not checked: this would not start at all. {reason}",
    "compare.other-scenario": "Not checked: this observation was made with other variables than the prediction has.",
    "compare.overridden": (
        "Not checked: the kernel ran with another environment than it was given ({differences}). "
        "Look into its kernelspec and its start-up files, or use the kernel of this interpreter."
    ),
    "compare.variable": "{name} was {asked}, there it is {found}",
    "compare.unset": "unset",
    "compare.value": "'{value}'",
    "compare.list": "{first}; {second}",
    "compare.other-machine": (
        "Not checked: this machine is not the one that was described (none of its GPUs is here). "
        "Describe this machine to have it checked."
    ),
    "compare.nothing-joins": (
        "Not checked: nothing tells which of the described GPUs is which here, as {lacking} neither UUIDs nor PCI "
        "addresses. Describe the machine by nvidia-smi -L or from this machine."
    ),
    "compare.description-lacks": "the description has",
    "compare.torch-lacks": "torch {version} tells",
    "compare.driver-lacks": "the driver tells",
    "compare.unknown-machine": (
        "Not checked: no device is visible, and nothing tells whether this is the described machine "
        "(that takes UUIDs in its description, and NVML here)."
    ),
    "compare.some-unclear": "Not checked in full: {reason}",
    "compare.confirmed": "Confirmed: each of the {count} devices is the foretold GPU.",
    "compare.confirmed-one": "Confirmed: the one device is the foretold GPU.",
    "compare.confirmed-none": "Confirmed: no device is visible, as foretold.",
    "compare.confirmed-workers": "Confirmed in each of {count} workers: all {devices} devices are the foretold GPUs.",
    "compare.refuted": "Refuted at {edges}: {reason}",
    "compare.hardware-counts": "What the hardware says counts.",
    "compare.simulator-counts": "What the driver says counts.",
    "compare.was-guess": "The prediction was only a guess.",
    "compare.was-unknown": "The prediction was only the most plausible reading: no source tells what the driver does there.",
    "compare.by-address": "Joined by PCI address, because {lacking} no UUIDs.",
    "compare.by": "Heard: {who}.",
    "compare.and": "{first} and {second}",
    "compare.comma": "{first}, {second}",
    "compare.unheard": "Not heard: {who}, because: {reason}",
    "compare.contradiction": (
        "The witnesses contradict each other from cuda:{ordinal} on, {near} and {far}: {near} is nearer to the hardware."
    ),
    "compare.gone-between": (
        "Between the two, {count} of the GPUs that NVML shows changed: one may be lost (look at nvidia-smi). "
        "Read the machine again."
    ),
    "compare.rule": "The rule that failed: “{rule}” (source: {source}).",
    "compare.no-such-worker": "Not checked: a worker with rank {rank} ran, and none like it was foretold (there are {count}).",
    "compare.launched-otherwise": "Refuted: {launcher} gave its worker other variables than foretold ({differences}).",
    "compare.given": "{name} is {found}, foretold was {foretold}",
    "compare.in-container": "All of this ran inside this notebook's own container ({kind}), with the GPUs that it was given.",
    "compare.exercised": "Exercised were {done}; not: {kinds}.",
    "compare.some-processes": "Of {count} processes only {ran} ran.",
    "witness.driver": "the driver",
    "witness.torch": "torch",
    "witness.footprint": "the footprint",
    "compare.simulated": "A simulated driver answered: this is about the path through the code, never about hardware.",
    "compare.not-exercised": "Only the CUDA layer was exercised, not: {kinds}.",
    "compare.first-process": "Only the first of {count} processes was run.",
}
