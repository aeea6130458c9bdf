"""PodDisruptionBudgets."""
