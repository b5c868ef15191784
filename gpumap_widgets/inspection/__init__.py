"""Running processes, this one and others: which values they have, which GPUs they hold, what cuda:0 is in them."""
