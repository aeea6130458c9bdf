"""The commands of README and docs/, typed from top to bottom as a reader would."""
