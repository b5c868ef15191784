"""What schedulers and MPI launchers do."""

SENTENCES = {
    "step.scheduler.unallocated": "Which GPUs the scheduler gave is not told; the first are taken here. Tell it: allocated=1,2 (nvidia-smi numbers).",
    "step.scheduler.not-there": "nvidia-smi {number} was allocated, it is said, but this machine has no such GPU.",
    "step.slurm.given": "Slurm gives the job the GPUs {gpus} of the node (SLURM_JOB_GPUS counts as nvidia-smi does).",
    "step.slurm.unconstrained": "Whether a device cgroup hides the other GPUs (ConstrainDevices) is not told; its documented default, no, is taken. Tell it: constrain_devices=yes or no.",
    "step.slurm.set": "Slurm sets CUDA_VISIBLE_DEVICES to {value}, over any value of the user's ({constrained} numbers); it sets no order.",
    "step.slurm.no-gpu": "No GPU is asked for: Slurm unsets CUDA_VISIBLE_DEVICES.",
    "step.slurm.bind-unknown": "How tasks are bound by {bind} depends on the node; all GPUs of the job are taken for each.",
    "error.slurm.too-many": "srun: error: Unable to allocate resources: Requested node configuration is not available ({count} GPUs of {there}).",
    "step.pbs.none": "OpenPBS sets CUDA_VISIBLE_DEVICES to nothing for a job without GPUs, where its devices subsystem is on.",
    "step.pbs.given": "OpenPBS sets CUDA_VISIBLE_DEVICES to {value} and CUDA_DEVICE_ORDER to PCI_BUS_ID.",
    "step.flux": "Flux starts {tasks} tasks, sets CUDA_VISIBLE_DEVICES to the job's GPUs, and PCI_BUS_ID unless an order is set.",
    "step.flux.map": "An explicit gpu-affinity map is not followed here.",
    "error.flux.too-many": "flux-run: ERROR: job needs {count} GPUs, more than the node has.",
    "step.lsf.given": "LSF sets CUDA_VISIBLE_DEVICES to {value}.",
    "step.lsf.enforced-unknown": "Whether LSF hides the other GPUs (LSB_RESOURCE_ENFORCE) is not told; taken as not. Tell it: constrain_devices=yes or no.",
    "step.mpi": "mpirun starts {count} processes with {variable}; it sets no GPU variable.",
    "step.mpi.uncounted": "How many processes start is not given and depends on the slots of the node; one is taken.",
    "step.horovod": "horovodrun starts {count} workers with HOROVOD_LOCAL_RANK; it sets no GPU variable, each takes cuda:local_rank.",
    "step.torchx": "TorchX starts {replicas} × {nproc} workers here; CUDA_VISIBLE_DEVICES is passed on.",
    "step.torchx.set": "TorchX starts {replicas} × {nproc} workers here and gives each replica consecutive numbers.",
}
