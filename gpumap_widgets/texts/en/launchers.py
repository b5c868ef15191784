"""What launchers do, and what they refuse."""

SENTENCES = {
    "step.torchrun": "torchrun starts {count} workers. It sets RANK and LOCAL_RANK and passes the environment on: every worker sees the same GPUs, and takes cuda:LOCAL_RANK.",
    "step.torchrun.virtual": "torchrun --virtual-local-rank starts {count} workers. Each gets one entry of the list and LOCAL_RANK=0.",
    "step.torchrun.count-gpu": "--nproc-per-node={asked} counts torch.cuda.device_count().",
    "error.torchrun.no-gpu": "torchrun: --nproc-per-node={asked} finds no CUDA device.",
    "error.torchrun.nproc": "torchrun: ValueError: Unsupported nproc_per_node value: {asked}",
    "error.torchrun.virtual": "torchrun of torch {version} has no --virtual-local-rank; it came with 2.10.",
    "error.torchrun.exceeds": "torchrun: ValueError: local_rank {local_rank} exceeds available GPUs.",
}
