"""OpenAPI v3 structural schemas: pruning, defaulting, validation, correlation of old and new values."""
