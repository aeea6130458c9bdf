"""Measures the door: what it adds to requests to external control planes, and a tenant's latency beside very many others."""
