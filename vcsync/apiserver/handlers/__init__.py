"""Request handlers: resource verbs, subresources, and paths that are not resources."""
