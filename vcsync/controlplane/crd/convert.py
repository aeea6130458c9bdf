"""Objects of custom resources from one version to another: by name only, or by the tenant's webhook.

A webhook is untrusted: an operator's policy decides whether and where it may be reached, on the address that was
resolved; no redirects, no proxies, bounded in time and size. As `apiserver/conversion` of apiextensions-apiserver.
"""

import base64
import copy
import json
import ssl
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError

TIMEOUT_SECONDS = 30.0
LARGEST_ANSWER = 32 << 20
VERSION_MARK = "@version"
"""Top-level member of stored objects of definitions with a webhook: the version in which they were stored."""


class _Nonsense(ValueError):
    """An answer of a webhook that is none."""


class Refused(Exception):
    """The operator's policy does not let this webhook be called; the message is for the tenant."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a tenant wants its webhook called: a host of a URL, or a service (`namespace/name`) of its own."""

    tenant: str
    host: str
    service: str
    port: int
    path: str


Reach = Callable[[Target], Awaitable[tuple[str, int]]]
"""Policy: where to connect for a target, as (IP address, port).

Raises:
    Refused: nowhere.
"""


async def refuse(target: Target) -> tuple[str, int]:
    """Let no webhook be called: the default."""
    raise Refused(f"the operator of this server does not allow it to call {target.service or target.host}")


def allow(networks: Sequence[str], resolve: Callable[[str], Awaitable[Sequence[str]]]) -> Reach:
    """Let webhooks be called whose host lies in one of the networks (CIDR).

    Args:
        networks: what is allowed.
        resolve: (host) -> its addresses. All of them must be allowed; the first is connected to.
    """
    allowed = [ip_network(each) for each in networks]

    async def reach(target: Target) -> tuple[str, int]:
        host = target.host
        addresses = [ip_address(each) for each in await resolve(host)] if host else []
        for each in addresses:
            if not any(each in network for network in allowed if network.version == each.version):
                raise Refused(f"{host} is not on the list of hosts that the operator of this server allows")
        if not addresses:
            return await refuse(target)
        return str(addresses[0]), target.port

    return reach


class _Pinned(AbstractResolver):
    """Resolves every name to the one address that the policy has chosen."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:  # noqa: ARG002 -- aiohttp's interface
        """Return the address, whatever the name."""
        proto: ResolveResult = {
            "hostname": host, "host": self._address, "port": self._port, "family": family, "proto": 0, "flags": 0,
        }  # fmt: skip
        return [proto]

    async def close(self) -> None:
        """Release nothing."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A definition's conversion webhook."""

    definition: str
    client: Mapping[str, Any]
    reviews: tuple[str, ...]

    def target(self, tenant: str) -> tuple[Target, str, str]:
        """Return where it is, its URL, and the name that its certificate must have."""
        service = self.client.get("service")
        if service is not None:
            name = f"{service['name']}.{service['namespace']}.svc"
            path = "/" + (service.get("path") or "").removeprefix("/")
            port = service.get("port") or 443
            target = Target(tenant, "", f"{service['namespace']}/{service['name']}", port, path)
            return target, f"https://{name}:{port}{path}", name
        url = str(self.client.get("url") or "")
        parts = urlsplit(url)
        host = parts.hostname or ""
        return Target(tenant, host, "", parts.port or 443, parts.path or "/"), url, host


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)


def _kind(obj: Object) -> str:
    return f"{obj.get('apiVersion')}, Kind={obj.get('kind')}"


class Converter:
    """Converts for one definition of one tenant."""

    def __init__(self, tenant: str, webhook: Webhook | None, reach: Reach) -> None:
        """Take the webhook; None: only the name of the version changes."""
        self._tenant = tenant
        self._webhook = webhook
        self._reach = reach

    @property
    def by_name(self) -> bool:
        """Whether only the name of the version changes."""
        return self._webhook is None

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """Return the objects in another version; those that are in it already are the same.

        Raises:
            StatusError: the webhook failed or answered nonsense.
        """
        if self._webhook is None:
            return [
                each if each["apiVersion"] == api_version else {**each, "apiVersion": api_version}
                for each in objects
            ]
        wanted = [each for each in objects if each["apiVersion"] != api_version]
        if not wanted:
            return objects
        converted = iter(await self._call(self._webhook, wanted, api_version))
        return [each if each["apiVersion"] == api_version else next(converted) for each in objects]

    async def _call(self, webhook: Webhook, objects: list[Object], api_version: str) -> list[Object]:
        about = f"conversion webhook for {_kind(objects[0])}"
        review = next((each for each in webhook.reviews if each in ("v1", "v1beta1")), None)
        if review is None:
            raise _failed("no supported conversion review versions")
        uid = str(uuid.uuid4())
        request = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{review}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        try:
            answer = await self._post(webhook, request)
            converted = _converted(answer, uid, review)
        except (Refused, aiohttp.ClientError, OSError, ValueError, RecursionError) as why:
            raise _failed(f"{about} failed: {why or 'timed out'}") from why
        if len(converted) != len(objects):
            raise _failed(f"{about} returned {len(converted)} objects, expected {len(objects)}")
        return [
            _checked(about, at, old, new, api_version)
            for at, (old, new) in enumerate(zip(objects, converted, strict=True))
        ]

    async def _post(self, webhook: Webhook, request: Object) -> Any:
        target, url, name = webhook.target(self._tenant)
        address, port = await self._reach(target)
        bundle = webhook.client.get("caBundle")
        trusted = base64.b64decode(bundle).decode() if bundle else None
        context = ssl.create_default_context(cadata=trusted)
        connector = aiohttp.TCPConnector(resolver=_Pinned(address, port), ssl=context, force_close=True)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session,
            session.post(url, json=request, allow_redirects=False, server_hostname=name) as answer,
        ):
            body = await answer.content.read(LARGEST_ANSWER + 1)
            while not answer.content.at_eof() and len(body) <= LARGEST_ANSWER:
                body += await answer.content.read(LARGEST_ANSWER + 1 - len(body))
            if len(body) > LARGEST_ANSWER:
                raise _Nonsense(f"the answer is larger than {LARGEST_ANSWER} bytes")
            if answer.status != 200:
                raise _Nonsense(f"the server answered {answer.status}")
            return json.loads(body)


def _converted(answer: Any, uid: str, review: str) -> list[Any]:
    """Take the converted objects out of an answer.

    Raises:
        ValueError: there are none; the message says why.
    """
    if not isinstance(answer, dict):
        raise _Nonsense("the answer is no object")
    if review == "v1" and (answer.get("apiVersion"), answer.get("kind")) != (
        "apiextensions.k8s.io/v1",
        "ConversionReview",
    ):
        expected = "apiextensions.k8s.io/v1, Kind=ConversionReview"
        raise _Nonsense(f"expected webhook response of {expected}, got {_kind(answer)}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Nonsense("no response provided")
    if review == "v1" and response.get("uid") != uid:
        raise _Nonsense(
            f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.get('uid') or '')}"
        )
    result = response.get("result") or {}
    status = result.get("status") or ""
    if status != "Success":
        raise _Nonsense(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise _Nonsense("the converted objects are no list")
    return converted


def _checked(about: str, at: int, old: Object, new: Any, api_version: str) -> Object:
    """Check one converted object, and give it back the metadata that a webhook may not change."""
    where = f"{about} returned invalid converted object at index {at}"
    if not isinstance(new, dict):
        raise _failed(f"{where}: it is no object")
    if new.get("apiVersion") != api_version:
        told = f"invalid groupVersion (expected {api_version}, received {new.get('apiVersion')})"
        raise _failed(f"{where}: {told}")
    if new.get("kind") != old.get("kind"):
        raise _failed(f"{where}: invalid kind (expected {old.get('kind')}, received {new.get('kind')})")
    metadata = new.get("metadata")
    bad = f"{about} returned invalid metadata in object at index {at}"
    if not isinstance(metadata, dict):
        raise _failed(f"{bad}: missing metadata in converted object")
    for name, label in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (metadata.get(name) or "") != (old["metadata"].get(name) or ""):
            told = (
                f"must have the same {label}: {old['metadata'].get(name) or ''} != {metadata.get(name) or ''}"
            )
            raise _failed(f"{where}: {told}")
    kept = copy.deepcopy(old["metadata"])
    for name in ("labels", "annotations"):
        kept.pop(name, None)
        given = metadata.get(name)
        if given is None:
            continue
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise _failed(f"{bad}: invalid metadata.{name} in converted object")
        kept[name] = given
    return {**new, "metadata": kept}
