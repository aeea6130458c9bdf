"""Attacks on an embedded control plane: attackers, attacks, and resource-exhausting requests."""
