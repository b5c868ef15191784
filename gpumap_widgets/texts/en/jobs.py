"""Several processes at once: what they share, and what a running job's ranks say of themselves."""

SENTENCES = {
    "jobs.ranks": "ranks {ranks}",
    "jobs.unnamed": "this process",
    "jobs.process": "process {n}",
    "jobs.more": "{shown} and {n} more",
    "jobs.many": "{first} … {last} ({n})",
    "jobs.on": "{workers} on the {gpu}",
    "jobs.more-groups": "; {n} more such groups",
    "jobs.wants": "{worker} wants {devices} of {count}",
    "finding.ordinal-missing": "A CUDA device is asked for that is not there: {asked}. That fails with “invalid device ordinal”.",
    "remedy.ordinal-missing": "Start at most {most} workers, use cuda:LOCAL_RANK without an offset, and choose the GPUs by CUDA_VISIBLE_DEVICES.",
    "finding.no-set-device": "Workers that select no device share cuda:0: {groups}.",
    "remedy.no-set-device": 'Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything else touches CUDA.',
    "finding.workers-on-one-gpu": "Several workers are on one GPU: {groups}. NCCL refuses that within a process group.",
    "remedy.workers-on-one-gpu": "Start at most as many workers as there are GPUs, or give each its own list.",
    "finding.shared-by-default": "A program that selects no device uses cuda:0: {groups}.",
    "remedy.shared-by-default": "Give each program a list of its own in CUDA_VISIBLE_DEVICES.",
    "finding.gpus-nobody-uses": "No worker uses {gpus}.",
}
