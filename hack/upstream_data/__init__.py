"""Sends the objects of Kubernetes' own test data to both servers and compares the answers."""
