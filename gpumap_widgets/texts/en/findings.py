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
    "finding.host-numbers-inside": "“{number}” is the host's number of the {gpu}. Here {count} GPUs are left and count from 0, so the list ends there.",
    "remedy.host-numbers-inside": "Set {fix}: UUIDs are the same inside and outside.",
    "finding.gpus-list-split": "--gpus {value} asks for {kept} only: the comma made a count of “{dropped}”.",
    "remedy.gpus-list-split": "Write --gpus '\"device={meant}\"', with both kinds of quotes.",
    "finding.gpus-is-a-count": "--gpus {value} is a count of {count}, no list of GPUs: the first ones by nvidia-smi's numbers.",
    "remedy.gpus-is-a-count": "Write --gpus '\"device={value}\"' for these GPUs.",
    "finding.variable-unread": "Nothing reads NVIDIA_VISIBLE_DEVICES={value} here, so the container has no GPU: only the nvidia runtime does.",
    "remedy.variable-unread": "Add --runtime=nvidia, or say it with --gpus.",
    "finding.undocumented-order": "“{value}” is no value that NVIDIA documents for CUDA_DEVICE_ORDER.",
    "remedy.undocumented-order": "Use PCI_BUS_ID, or unset the variable for the default.",
    "finding.unusable-gpu": "The {gpu} cannot be used: {problem}",
}
