"""What can be wrong with a table of tasks."""

SENTENCES = {
    "tasks.gpu-unknown": "{task} wants {gpu}, and no GPU of this machine has a UUID that begins like this.",
    "tasks.fix-unknown": "List this machine's UUIDs with nvidia-smi -L and put the right one into the line of {task}.",
    "tasks.gpu-ambiguous": "{task} wants {gpu}, and {n} GPUs of this machine have a UUID that begins like this.",
    "tasks.fix-ambiguous": "Write the whole UUID into the line of {task}.",
    "tasks.gpu-doubled": "{task} wants {gpu}, which {other} has already.",
    "tasks.fix-doubled": "Give one of the two another GPU; a UUID twice in one list hides every GPU.",
    "tasks.gpu-unusable": "{task} wants {gpu}, which cannot be used: {problem}",
    "tasks.fix-unusable": "Give {task} another GPU until this one works again.",
}
