"""Objects of custom resources from one version to another: by name only, or by the tenant's webhook.

What a webhook answers is not trusted. As `apiserver/conversion` of apiextensions-apiserver.
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.egress.client import Call, Client
from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.egress.target import target_of
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.kinds import rules

TIMEOUT_SECONDS = 30.0
REQUEST_SECONDS = 60.0
"""How long all calls for one list may take: kube-apiserver's --request-timeout."""
LARGEST_OBJECT = 3 << 20
"""Bytes of one converted object: as many as a request may send."""
LARGEST_ANSWER = 32 << 20
BATCH_OBJECTS, BATCH_BYTES = 500, 4 << 20
"""What one call is given of a longer list."""

_PATHS = {"labels": "metadata.labels", "annotations": "metadata.annotation"}
_TYPES: Mapping[type, str] = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
    type(None): "<nil>",
}

Reach = Callable[[Call], Awaitable[bytes]]
"""Calls a webhook, where the operator allows it (`egress.client.Client.call`).

Raises:
    CallFailed: there is no answer; the message is for the tenant.
"""
refuse: Reach = Client().call
"""Calls nobody: the default."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A definition's conversion webhook."""

    definition: str
    client: Mapping[str, Any]
    reviews: tuple[str, ...]


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)


def _kind(obj: Mapping[str, Any]) -> str:
    return f"{obj.get('apiVersion') or ''}, Kind={obj.get('kind') or ''}"


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
        converted: list[Object] = []
        until = asyncio.get_running_loop().time() + REQUEST_SECONDS
        for batch in _batches(wanted):
            converted += await self._call(self._webhook, batch, api_version, until)
        following = iter(converted)
        return [each if each["apiVersion"] == api_version else next(following) for each in objects]

    async def _call(
        self, webhook: Webhook, objects: list[Object], api_version: str, until: float
    ) -> list[Object]:
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
            answer = await self._ask(webhook, msgspec.json.encode(request), until)
            converted = _converted(answer, uid, review)
        except CallFailed as why:
            raise _failed(f"{about} failed: {why}") from why
        if len(converted) != len(objects):
            raise _failed(f"{about} returned {len(converted)} objects, expected {len(objects)}")
        return [_checked(about, old, new, api_version) for old, new in zip(objects, converted, strict=True)]

    async def _ask(self, webhook: Webhook, request: bytes, until: float) -> Any:
        """Return what the webhook answers, decoded.

        Raises:
            CallFailed: it does not, or not JSON.
        """
        left = until - asyncio.get_running_loop().time()
        call = Call(
            target_of(self._tenant, webhook.client),
            lambda: request,
            max(0.0, min(TIMEOUT_SECONDS, left)),
            len(request),
            query=f"timeout={TIMEOUT_SECONDS:.0f}s",
            largest=LARGEST_ANSWER,
        )
        body = await self._reach(call)
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
            raise CallFailed(f"couldn't get version/kind; json parse error: {why}") from why


def _batches(objects: Sequence[Object]) -> Iterator[list[Object]]:
    """Cut a list into what one call is given."""
    batch: list[Object] = []
    size = 0
    for each in objects:
        size += len(msgspec.json.encode(each))
        if batch and (size > BATCH_BYTES or len(batch) == BATCH_OBJECTS):
            yield batch
            batch, size = [], len(msgspec.json.encode(each))
        batch.append(each)
    yield batch


def _converted(answer: Any, uid: str, review: str) -> list[Any]:
    """Take the converted objects out of an answer.

    Raises:
        CallFailed: there are none; the message says why.
    """
    if not isinstance(answer, dict):
        raise CallFailed("couldn't get version/kind; json parse error: it is no object")
    expected = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    if review == "v1" and _kind(answer) != _kind(expected):
        raise CallFailed(f"expected webhook response of {_told(expected)}, got {_told(answer)}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise CallFailed("no response provided")
    if review == "v1" and response.get("uid") != uid:
        raise CallFailed(
            f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.get('uid') or '')}"
        )
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    status = result.get("status") or ""
    if status != "Success":
        told = result.get("message")
        raise CallFailed(str(told) if told else f"response.result.status was '{status}', not 'Success'")
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise CallFailed("the converted objects are no list")
    return converted


def _told(found: Mapping[str, Any]) -> str:
    """Write group, version and kind as Go does."""
    group, slash, version = str(found.get("apiVersion") or "").rpartition("/")
    return f"{group}{slash}{version}, Kind={found.get('kind') or ''}"


def _checked(about: str, old: Object, new: Any, api_version: str) -> Object:
    """Check one converted object, and give it back the metadata that a webhook may not change."""
    if not isinstance(new, dict):
        raise _failed(f"{about} returned invalid object at index 0: it is no object")
    where = f"{about} returned invalid object at index 0"
    if len(msgspec.json.encode(new)) > LARGEST_OBJECT:
        raise _failed(f"{where}: it is larger than {LARGEST_OBJECT} bytes")
    if new.get("apiVersion") != api_version:
        told = f"invalid groupVersion (expected {api_version}, received {new.get('apiVersion') or ''})"
        raise _failed(f"{where}: {told}")
    if new.get("kind") != old.get("kind"):
        raise _failed(f"{where}: invalid kind (expected {old.get('kind')}, received {new.get('kind') or ''})")
    metadata = new.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    for name, label in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = old["metadata"].get(name) or "", known.get(name) or ""
        if before != after:
            raise _failed(f"{about} returned invalid object: must have the same {label}: {before} != {after}")
    try:
        return {**new, "metadata": _restored(old["metadata"], new)}
    except CallFailed as why:
        raise _failed(f"{about} returned invalid metadata: {why}") from None


def _restored(original: Object, new: Object) -> Object:
    """Return the metadata of a converted object: its own labels and annotations, all else as it was.

    Raises:
        CallFailed: they are none.
    """
    if "metadata" not in new:
        raise CallFailed("missing metadata in converted object")
    metadata = new["metadata"]
    if not isinstance(metadata, dict):
        raise CallFailed(f"invalid metadata of type {_TYPES[type(metadata)]} in converted object")
    kept = {key: value for key, value in original.items() if key not in ("labels", "annotations")}
    for name, check in (("labels", rules.labels), ("annotations", rules.annotations)):
        given = metadata.get(name)
        if given is None:
            continue
        if not isinstance(given, dict):
            raise CallFailed(f"invalid metadata.{name} of type {_TYPES[type(given)]} in converted object")
        for key, value in given.items():
            if not isinstance(value, str):
                told = f"must be a string, but is {_TYPES[type(value)]} in converted object"
                raise CallFailed(f"metadata.{name}[{key}] {told}")
        if given != (original.get(name) or {}):
            found = [str(each) for each in check(_PATHS[name], given)]
            if found:
                raise CallFailed(found[0] if len(found) == 1 else f"[{', '.join(found)}]")
        kept[name] = given
    return kept
