"""Rules and types that the kinds of several groups share."""
