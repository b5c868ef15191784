"""Unequal GPUs: what data parallel costs on them, and which task belongs on which. Pure, standard library only."""
