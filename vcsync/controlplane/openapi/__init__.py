"""OpenAPI: what the API looks like, in versions 2 and 3, for kubectl explain, apply and validation."""

from vcsync.controlplane.openapi.documents import Custom, Document, document, index, swagger, swagger_protobuf
from vcsync.controlplane.openapi.protobuf import CONTENT_TYPE as PROTOBUF_TYPE

__all__ = ["PROTOBUF_TYPE", "Custom", "Document", "document", "index", "swagger", "swagger_protobuf"]
