"""A running job asked: which GPU does every rank, worker or actor use. One row each, gathered by the job's own engine."""
