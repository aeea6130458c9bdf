"""Attacks on an embedded control plane: who attacks, with what, and the requests that exhaust."""
