"""Executes the commands of README and docs/ from top to bottom, as a reader would."""
