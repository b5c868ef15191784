"""Evidence: one JSON line a run, appended safely, read back over many files."""
