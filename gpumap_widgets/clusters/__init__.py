"""Several hosts: their machines, what a command makes of all of them, and what changed on which."""
