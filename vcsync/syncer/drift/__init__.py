"""Drift: changes that were made in the super cluster only, which the syncer repairs and records."""
