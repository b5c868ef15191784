"""What is worth saying, and what to do about it."""

SENTENCES = {
    "finding.list-emptied": "“{value}” hides every GPU: {why}",
    "remedy.list-emptied": "Name each GPU once.",
    "finding.hides-all": "CUDA_VISIBLE_DEVICES is set to nothing, so the process sees no GPU at all.",
    "remedy.hides-all": "To show every GPU, unset the variable instead of emptying it.",
    "finding.list-cut": "The list ends at “{token}”, {kept} of {named} entries count: {why}",
    "remedy.list-cut": "Correct or remove “{token}”.",
    "finding.number-is-not-nvidia-smi": "“{number}” is the {gpu} here, as cuda:{ordinal}. If you meant nvidia-smi {number}, that is the {meant}.",
    "remedy.number-is-not-nvidia-smi": "Set {fix}.",
    "finding.undocumented-order": "“{value}” is no value that NVIDIA documents for CUDA_DEVICE_ORDER.",
    "remedy.undocumented-order": "Use PCI_BUS_ID, or unset the variable for the default.",
    "finding.unusable-gpu": "The {gpu} cannot be used: {problem}",
    "finding.set-too-late": "{name} is set to “{value}” after CUDA has started: it changes nothing in this process.",
    "remedy.set-too-late": "Set it before the first call that starts CUDA; in a notebook restart the kernel and set it in the first cell.",
    "finding.near-miss-name": "{name} is no variable that CUDA reads.",
    "remedy.near-miss-name": "Write {meant}.",
    "finding.unrecognised-option": "{tool}: {options} is not known here; it is taken to leave the GPUs alone.",
}
