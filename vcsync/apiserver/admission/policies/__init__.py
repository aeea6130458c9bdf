"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies, enforced on every write."""
