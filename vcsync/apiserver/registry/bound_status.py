"""Binds a Pod to a node and patches its status, in one write that watchers see as one event.

The write is a Binding followed by a patch of the status: admission, policies and webhooks see both requests as they would see
them one after the other, and the rules of both hold. Only the stored object in between is left out.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, negotiation
from vcsync.apiserver.registry import binding
from vcsync.apiserver.registry.field_managers import track_unstored
from vcsync.apiserver.registry.offloading import run_decoding
from vcsync.apiserver.registry.patch import patched
from vcsync.apiserver.registry.store import Registry, Written
from vcsync.apiserver.request.options import WriteOptions
from vcsync.apiserver.request.scope import Scope

BINDING = ("", "v1", "Binding")


async def bind_with_status(
    registry: Registry, scope: Scope, form: str, body: bytes, options: WriteOptions
) -> Written:
    """Bind a Pod and patch its status.

    Args:
        registry: The registry.
        scope: Scope of the request. Its kind is Pod.
        form: Media type of the patch: a merge patch.
        body: The patch. `spec.nodeName` is the node, and the rest of it is a patch of the subresource `status`. The
            `metadata.uid` in it is a precondition.
        options: Options of the request.

    Raises:
        StatusError: What the API answers to a Binding or to a patch of the status; 415 for another form of patch.
    """
    if form != negotiation.MERGE_PATCH:
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {negotiation.MERGE_PATCH}"
        )
    content, _ = await run_decoding(scope, body, form, partial(decode.read_patch, body, form))
    node, uid, rest = _parts(content)
    sent: Object = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": scope.name, "namespace": scope.namespace, **({"uid": uid} if uid else {})},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    first, second = replace(scope, subresource="binding"), replace(scope, subresource="status")
    track_unstored(first, sent, options.manager, BINDING)
    await registry.admit_and_validate_request(first, "CREATE", sent, options)
    binding.check_target(sent["target"])

    def bound(pod: Object) -> Object:
        return binding.assigned(pod, scope.name, sent["target"]["name"], sent["metadata"], scope.context.now)

    status = msgspec.json.encode(rest)
    change = await run_decoding(second, status, form, partial(patched, second, form, status, options))
    return await registry.update(second, change, options, uid=uid, before=bound)


def _parts(content: object) -> tuple[str, str, Object]:
    """Return the node, the UID and the patch of the status.

    Raises:
        StatusError: 400, the patch has another form.
    """
    if not isinstance(content, dict):
        raise errors.bad_request("the patch must be a JSON object")
    spec, metadata = content.get("spec"), content.get("metadata", {})
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or set(spec) != {"nodeName"} or not isinstance(node, str) or not node:
        raise errors.bad_request("spec.nodeName must name a node, and spec must have no other field")
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata must be a JSON object")
    uid: Any = metadata.get("uid") or ""
    if not isinstance(uid, str):
        raise errors.bad_request("metadata.uid must be a string")
    return node, uid, {key: value for key, value in content.items() if key != "spec"}
