"""The slow lane: a process of its own for writes that take long, so that all others are served meanwhile."""
