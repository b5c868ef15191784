"""Measuring: how fast each GPU really is. A bounded benchmark, in a process of its own, only with the user's consent."""
