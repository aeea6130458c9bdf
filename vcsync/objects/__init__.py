"""Kubernetes values, pure: envelopes, quantities, selectors, taints, merge patches."""
