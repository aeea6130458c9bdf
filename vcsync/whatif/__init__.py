"""Decides on a copy of the pool's state what the namespace scheduler would do: pure."""
