"""Converts custom resources between versions: by changing the apiVersion only, or by the tenant's webhook.

Responses of webhooks are not trusted.

Behaviour: `apiserver/conversion` of apiextensions-apiserver.
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from vcsync.apimachinery import numbers
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.validation import fields as rules
from vcsync.apimachinery.wire import decode
from vcsync.apiserver.egress.answers import read_answer
from vcsync.apiserver.egress.client import Call, Client
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.target import target_of
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

TIMEOUT_SECONDS = 30.0
"""Time for one call of a webhook."""
REQUEST_SECONDS = 60.0
"""Time for all calls for one list: the default of kube-apiserver's --request-timeout."""
LARGEST_OBJECT = 3 << 20
"""Size of one converted object in bytes: the limit of a request body."""
OBJECT_STEPS = 200
"""Steps of a budget that the check of one converted object takes."""
LARGEST_ANSWER = 32 << 20
"""Size of a response of a webhook in bytes."""
BATCH_OBJECTS, BATCH_BYTES = 500, 4 << 20
"""Objects and bytes that one call converts. Longer lists take several calls."""
_decode = msgspec.json.Decoder(float_hook=numbers.number).decode

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
"""Calls a webhook if the operator allows it; see `egress.client.Client.call`.

Raises:
    CallFailed: There is no response. The message is for the tenant.
"""
refuse: Reach = Client().call
"""The default, which refuses all calls."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A definition's conversion webhook.

    Attributes:
        definition: Name of the definition.
        client: The `clientConfig`.
        reviews: The `conversionReviewVersions`.
    """

    definition: str
    client: Mapping[str, Any]
    reviews: tuple[str, ...]


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)


def _kind(obj: Mapping[str, Any]) -> str:
    return f"{obj.get('apiVersion') or ''}, Kind={obj.get('kind') or ''}"


class Converter:
    """Converts the objects of one definition of one tenant.

    Args:
        tenant: The tenant.
        webhook: The conversion webhook. None: conversion changes the apiVersion only.
        reach: Calls webhooks.
    """

    def __init__(self, tenant: str, webhook: Webhook | None, reach: Reach) -> None:
        self._tenant = tenant
        self._webhook = webhook
        self._reach = reach

    @property
    def by_name(self) -> bool:
        """Whether conversion changes the apiVersion only."""
        return self._webhook is None

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """Return the objects in another version. Objects that have this version are returned unchanged.

        Raises:
            StatusError: The webhook failed or sent an invalid response.
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
        asked = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{review}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        try:
            answer = await self._ask(webhook, msgspec.json.encode(asked), until)
            converted = _converted(answer, uid, review)
        except CallFailed as why:
            raise _failed(f"{about} failed: {why}") from why
        if len(converted) != len(objects):
            raise _failed(f"{about} returned {len(converted)} objects, expected {len(objects)}")
        budget, found = Budget("the converted objects"), []
        for old, new in zip(objects, converted, strict=True):
            found.append(_checked(about, old, new, api_version))
            budget.spend(OBJECT_STEPS)
            await rest(budget)
        return found

    async def _ask(self, webhook: Webhook, request: bytes, until: float) -> Object:
        """Return the decoded response of the webhook.

        Args:
            webhook: The webhook.
            request: The body of the request.
            until: Time of the event loop's clock at which the call fails.

        Raises:
            CallFailed: There is no response, or it is not a JSON object.
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
            answer = await read_answer(self._tenant, body, partial(_decode, body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
            message = decode.no_object(body) or f"couldn't get version/kind; json parse error: {why}"
            raise CallFailed(message) from why
        if not isinstance(answer, dict):
            raise CallFailed(decode.no_object(body))
        return answer


def _batches(objects: Sequence[Object]) -> Iterator[list[Object]]:
    """Split a list into the batches of single calls."""
    batch: list[Object] = []
    size = 0
    for each in objects:
        size += len(msgspec.json.encode(each))
        if batch and (size > BATCH_BYTES or len(batch) == BATCH_OBJECTS):
            yield batch
            batch, size = [], len(msgspec.json.encode(each))
        batch.append(each)
    yield batch


def _converted(answer: Object, uid: str, review: str) -> list[Any]:
    """Return the converted objects of a response.

    Raises:
        CallFailed: The response is invalid or reports a failure.
    """
    expected = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    if review == "v1" and _kind(answer) != _kind(expected):
        raise CallFailed(
            f"expected webhook response of {_group_version_kind(expected)}, got {_group_version_kind(answer)}"
        )
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
        message = result.get("message")
        raise CallFailed(str(message) if message else f"response.result.status was '{status}', not 'Success'")
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise CallFailed("the converted objects are no list")
    return converted


def _group_version_kind(found: Mapping[str, Any]) -> str:
    """Return group, version and kind in the form of Go's `GroupVersionKind.String`."""
    group, slash, version = str(found.get("apiVersion") or "").rpartition("/")
    return f"{group}{slash}{version}, Kind={found.get('kind') or ''}"


def _checked(about: str, old: Object, new: Any, api_version: str) -> Object:
    """Check one converted object, and restore the metadata that a webhook must not change."""
    if not isinstance(new, dict):
        raise _failed(f"{about} returned invalid object at index 0: it is no object")
    where = f"{about} returned invalid object at index 0"
    if len(msgspec.json.encode(new)) > LARGEST_OBJECT:
        raise _failed(f"{where}: it is larger than {LARGEST_OBJECT} bytes")
    if new.get("apiVersion") != api_version:
        received = new.get("apiVersion") or ""
        raise _failed(f"{where}: invalid groupVersion (expected {api_version}, received {received})")
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
    """Return the original metadata with the labels and annotations of the converted object.

    Raises:
        CallFailed: The labels or annotations are invalid.
    """
    if "metadata" not in new:
        raise CallFailed("missing metadata in converted object")
    metadata = new["metadata"]
    if not isinstance(metadata, dict):
        raise CallFailed(f"invalid metadata of type {_TYPES[type(metadata)]} in converted object")
    kept = {key: value for key, value in original.items() if key not in ("labels", "annotations")}
    for name, check in (("labels", rules.labels), ("annotations", rules.annotations)):
        values = metadata.get(name)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise CallFailed(f"invalid metadata.{name} of type {_TYPES[type(values)]} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                raise CallFailed(
                    f"metadata.{name}[{key}] must be a string, but is {_TYPES[type(value)]} in converted object"
                )
        if values != (original.get(name) or {}):
            findings = [str(each) for each in check(_PATHS[name], values)]
            if findings:
                raise CallFailed(findings[0] if len(findings) == 1 else f"[{', '.join(findings)}]")
        kept[name] = values
    return kept
