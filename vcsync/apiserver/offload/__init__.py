"""A second process for expensive writes, so that the event loop keeps serving everybody else."""
