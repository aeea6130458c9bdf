"""The words that all parts of the API server share: scope, caller, options, request info, claims."""
