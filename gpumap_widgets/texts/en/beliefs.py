"""Orders that people believe in."""

SENTENCES = {
    "belief.pci": "as nvidia-smi lists them",
    "belief.capability": "by compute capability",
    "belief.sm-count": "by SM count",
    "belief.peak": "by peak speed (cores × clock)",
    "belief.bandwidth": "by memory bandwidth",
    "belief.memory": "by memory size",
}
