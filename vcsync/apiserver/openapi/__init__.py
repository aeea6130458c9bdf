"""OpenAPI documents of versions 2 and 3, which clients use for `kubectl explain`, apply and validation."""

from vcsync.apiserver.openapi.documents import (
    Custom,
    document,
    fingerprinted,
    index,
    known_document,
    known_swagger,
    swagger,
    swagger_protobuf,
)
from vcsync.apiserver.openapi.kept_documents import Document
from vcsync.apiserver.openapi.protobuf import CONTENT_TYPE as PROTOBUF_TYPE

__all__ = [
    "PROTOBUF_TYPE",
    "Custom",
    "Document",
    "document",
    "fingerprinted",
    "index",
    "known_document",
    "known_swagger",
    "swagger",
    "swagger_protobuf",
]
