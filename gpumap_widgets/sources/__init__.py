"""Where machines come from: this machine's NVML, pasted text, presets. Each gives a frozen `Topology`."""
