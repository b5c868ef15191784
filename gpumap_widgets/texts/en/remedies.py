"""What the user of a remedy must know, and why there may be none."""

SENTENCES = {
    "caveat.uuid": "A UUID names the card itself: it holds after a reboot and under every order.",
    "caveat.index": "Numbers count by PCI address; they hold until a card is added, removed or moved.",
    "caveat.python": "Before anything starts CUDA: in a notebook the first cell, of a fresh kernel.",
    "caveat.local-rank": "Each worker takes cuda:LOCAL_RANK, so the script must call torch.cuda.set_device(LOCAL_RANK).",
    "caveat.deepspeed": "DeepSpeed sorts the numbers and counts them from the whole machine; it refuses UUIDs.",
    "caveat.docker": "The device list chooses; it cannot order. The order inside comes from the container's own variables.",
    "caveat.kubernetes": "Which GPUs a pod gets is the device plugin's choice; this holds for a pod that gets all of them.",
    "caveat.slurm": "Which GPUs a job gets is Slurm's choice; this takes the whole node and picks inside the job.",
    "caveat.systemd": "Reload and restart the unit; a drop-in (systemctl edit) keeps the original file.",
    "cannot.general": "Nothing that can be typed there gives this map for sure.",
    "cannot.no-uuid": "The description of the machine shows no UUID of a wanted GPU.",
    "cannot.no-index": "A wanted GPU has no number of its own here: it is in MIG mode, or the description shows none.",
    "cannot.deepspeed": "DeepSpeed refuses UUIDs and sorts numbers, so it can only give GPUs in ascending order.",
    "cannot.kubernetes": "A pod cannot name its GPUs: the device plugin chooses among the free ones. Ask for all, or select by a DRA claim.",
    "cannot.slurm": "A job cannot name its GPUs, and by number the list would not give this map.",
}
