"""Schemas of built-in kinds and custom resources: types, keys of lists, defaults."""
