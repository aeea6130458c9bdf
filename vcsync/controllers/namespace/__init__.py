"""Empties and ends namespaces that are being deleted."""
