"""What objects may look like: types, lists' keys and defaults of built-in kinds and of custom resources."""
