"""Node lifecycle and taint-based eviction."""
