"""The Common Expression Language as kube-apiserver speaks it: rules of custom resources, match conditions, policies.

Rules are parsed and type-checked by cel-expr-python (Google's cel-cpp). They are evaluated here, by a walk over the
checked expression that counts its cost: so that a tenant's rule is bounded in time and memory whatever it says.
"""
