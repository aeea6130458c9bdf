"""The Common Expression Language as kube-apiserver evaluates it: rules of custom resources, match conditions, policies.

cel-expr-python (Google's cel-cpp) parses and type-checks expressions. This package evaluates them: it walks the
checked expression and counts its cost, so that time and memory of a tenant's expression are bounded.
"""
