"""What travels: content negotiation, JSON, YAML and protobuf in and out, Tables, partial objects. Pure."""
