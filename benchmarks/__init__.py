"""How fast it is, each figure beside its budget and a baseline from the same run: ``python -m benchmarks``."""
