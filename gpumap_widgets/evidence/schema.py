"""The name and the version of a line of evidence."""

MARK = "gpumap_evidence"
"""The first key of every line; its value is the version."""
SCHEMA = 1
