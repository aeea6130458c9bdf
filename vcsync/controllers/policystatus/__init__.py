"""Type checking of ValidatingAdmissionPolicies."""
