"""Wire formats: content negotiation, JSON, YAML, protobuf, Tables and partial objects. Pure."""
