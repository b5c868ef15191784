"""What a live run says."""

SENTENCES = {}
