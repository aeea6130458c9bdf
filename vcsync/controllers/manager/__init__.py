"""The controller manager: the role, its term of leadership, and the list of controllers."""
