"""Admission policies as objects: compiles their expressions, and finds errors in them."""
