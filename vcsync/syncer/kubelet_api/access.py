"""Authentication and authorization of callers of the kubelet API: a client certificate, and the right to `nodes/proxy`.

Behaviour: a kubelet with `authorization.mode: Webhook` (Kubernetes' `pkg/kubelet/server/auth.go`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.resources import CONFIG_MAPS, SUBJECT_ACCESS_REVIEWS
from vcsync.objects.envelope import decode

AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION: Final = "extension-apiserver-authentication"
"""ConfigMap in which kube-apiserver publishes the CAs of its clients."""
CLIENT_CA: Final = "client-ca-file"
ALLOWED_SECONDS: Final = 10.0
DENIED_SECONDS: Final = 1.0
"""Seconds for which an answer of the tenant's control plane is used again."""
MAX_ANSWERS: Final = 100
"""Answers that are kept. A certificate may name thousands of groups."""
MAX_CA_BYTES: Final = 256 * 1024
"""Largest client CA. Each certificate of it takes time to load."""


class NoClientCA(Exception):
    """A control plane publishes no usable CA for client certificates."""


class NoDecision(Exception):
    """A control plane sends something else than a decision about a caller."""


class _Data(Struct):
    data: dict[str, str] | None = None


class _Status(Struct):
    allowed: bool = False
    denied: bool = False


class _Review(Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class User(Struct, frozen=True):
    """The user that a client certificate names."""

    name: str
    groups: tuple[str, ...] = ()


async def authentication(client: Client) -> dict[str, str]:
    """Return what a tenant's kube-apiserver publishes about the certificates of its clients, with `CLIENT_CA`.

    Raises:
        NoClientCA: It publishes no usable CA.
        KubeError: The control plane cannot be read, or refuses.
    """
    found = await client.get(CONFIG_MAPS, AUTHENTICATION, AUTHENTICATION_NAMESPACE)
    try:
        data = decode(found.rest, _Data).data or {}
    except msgspec.MsgspecError as error:
        raise NoClientCA(f"ConfigMap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION}: {error}") from error
    if max((len(text) for text in data.values()), default=0) > MAX_CA_BYTES:
        raise NoClientCA(
            f"{CLIENT_CA} of ConfigMap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION} is larger than {MAX_CA_BYTES} bytes"
        )
    if not data.get(CLIENT_CA):
        raise NoClientCA(
            f"ConfigMap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION} has no {CLIENT_CA}; run kube-apiserver with --client-ca-file"
        )
    return data


def user_of(certificate: Mapping[str, Any] | None) -> User | None:
    """Return the user of a client certificate that TLS has verified, as kube-apiserver reads it; None: there is none.

    Args:
        certificate: Result of `ssl.SSLObject.getpeercert`.
    """
    pairs = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    named = [value for key, value in pairs if key == "commonName"]
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(named[-1], groups) if named and named[-1] else None


class Access:
    """Asks a tenant's control plane whether a caller may use the kubelet API.

    Args:
        client: Client of the control plane.
        clock: Monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[tuple[User, str, str], tuple[bool, float]] = {}

    async def allows(self, user: User, verb: str, node: str) -> bool:
        """Return whether a user may use `nodes/proxy` of a virtual node.

        Args:
            user: The caller.
            verb: `get` or `create`.
            node: Name of the virtual node; empty: any.

        Raises:
            KubeError: The control plane cannot be asked.
            NoDecision: Its answer is malformed.
        """
        question, now = (user, verb, node), self._clock()
        allowed, until = self._answers.get(question, (False, 0.0))
        if now < until:
            return allowed
        allowed = await self._ask(*question)
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        self._answers[question] = (allowed, now + (ALLOWED_SECONDS if allowed else DENIED_SECONDS))
        return allowed

    async def _ask(self, user: User, verb: str, node: str) -> bool:
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": "proxy",
            "name": node,
        }
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes},
        }
        answer = await self._client.create_raw(SUBJECT_ACCESS_REVIEWS, body)
        try:
            status = msgspec.json.decode(answer, type=_Review).status
        except msgspec.MsgspecError as error:
            raise NoDecision(str(error)) from error
        return status.allowed and not status.denied
