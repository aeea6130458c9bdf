"""OpenAPI: what the API looks like, in versions 2 and 3, for kubectl explain, apply and validation."""

from vcsync.controlplane.openapi.documents import Custom, Document, document, index, swagger

__all__ = ["Custom", "Document", "document", "index", "swagger"]
