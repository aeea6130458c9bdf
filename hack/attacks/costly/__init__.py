"""Attacks that cost more than their bytes: by stored state, reads, reviews, subresources, controllers, and before authentication."""
