"""What the sources of machines say."""

SENTENCES = {
    "source.nvml": "NVML on this machine",
    "source.simulated": "NVML of a simulated driver, not hardware",
    "nvml.no-library": "No NVIDIA driver was found on this machine (its management library, libnvidia-ml, does not load).",
    "nvml.not-loaded": "The NVIDIA management library is here, but its kernel driver is not loaded.",
    "nvml.mismatch": "The NVIDIA driver in the kernel and its library are of different versions; a restart of the machine usually mends that.",
    "nvml.no-permission-at-all": "This user may not ask the NVIDIA driver for its GPUs.",
    "nvml.other": "The NVIDIA management library does not start: {error}.",
    "nvml.remedy": "Run nvidia-smi in a terminal to see what the driver itself says. Or choose a preset, or paste the output of nvidia-smi from the machine that you mean.",
    "nvml.lost": "the GPU is lost (it has fallen off the bus or stopped answering).",
    "nvml.no-permission": "this user may not open it.",
    "nvml.operating-system": "the operating system or a device cgroup blocks it.",
    "nvml.unusable": "NVML cannot open it: {error}.",
}
