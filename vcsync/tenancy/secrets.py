"""Reads Secrets of the meta cluster."""

import base64
import binascii

from msgspec import MsgspecError, Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import decode


class BadSecret(ValueError):
    """A Secret is malformed. The text names it, and does not repeat what it contains."""


class _SecretData(Struct):
    data: dict[str, str] | None = None


async def read_secret(client: Client, name: str, namespace: str) -> dict[str, bytes] | None:
    """Return the contents of a Secret by key; None if it does not exist.

    Raises:
        BadSecret: it is malformed.
        KubeError: it cannot be read.
    """
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        return None
    try:
        data = decode(secret.rest, _SecretData).data or {} if secret.rest else {}
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except (MsgspecError, binascii.Error):
        raise BadSecret(f"Secret {namespace}/{name} is malformed; replace it") from None
