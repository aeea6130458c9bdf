"""Binds Pods to nodes.

Behaviour: Kubernetes' `registry/core/pod/storage/storage.go`.
"""

from functools import partial

from vcsync.apimachinery import errors
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.validation import names
from vcsync.apiserver.registry.eviction import set_condition
from vcsync.apiserver.registry.guaranteed_update import guaranteed_update
from vcsync.apiserver.registry.offloading import consider, run_step
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Put, Record

DONE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(registry: Registry, scope: Scope, binding: Object, dry_run: bool) -> Object:
    """Bind a Pod to a node. Returns the Status of the response.

    Args:
        registry: The registry.
        scope: Scope of the request. Its kind is Pod.
        binding: The Binding in the body.
        dry_run: Whether nothing is stored.

    Raises:
        StatusError: 400 if the names are invalid, 404 if there is no such Pod, 409 if the Pod cannot be bound or a
            precondition fails, 500 if the target is invalid.
    """
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if (metadata.get("name") or "") != scope.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    check_target(target)
    _check_name(scope.name)
    key = scope.key()

    async def attempt(record: Record | None) -> tuple[Object | None, Record | None]:
        if record is None:
            raise registry.not_found(scope)
        consider(scope, record.value)
        pod = await registry.load(scope.kind, record)
        preconditions = (
            ("UID", metadata.get("uid"), pod["metadata"].get("uid")),
            ("ResourceVersion", metadata.get("resourceVersion"), str(record.revision)),
        )
        for field, wanted, current in preconditions:
            if wanted and wanted != current:
                raise registry.conflict(
                    scope,
                    f"Precondition failed: {field} in precondition: {wanted}, "
                    f"{field} in object meta: {current}",
                )
        assign = partial(assigned, pod, scope.name, target["name"], metadata, scope.context.now)
        bound = await run_step(scope, assign)
        if dry_run:
            return DONE, record
        packed = await registry.packed(scope, bound)
        outcome = await registry.commit((Compare(key, record.revision),), (Put(key, packed),))
        return (DONE, None) if outcome.done else (None, outcome.failed[0][1])

    done = await guaranteed_update(registry.store, scope, attempt)
    if done is None:
        raise registry.conflict(scope)
    return done


def check_target(target: Object) -> None:
    """Refuse a target that is no node.

    Raises:
        StatusError: 500, as upstream answers.
    """
    wrong = []
    if target.get("kind") not in (None, "", "Node"):
        wrong.append(str(errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"))))
    if not target.get("name"):
        wrong.append(str(errors.required("target.name")))
    if wrong:
        raise StatusError(500, "", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


def _check_name(name: str) -> None:
    """Refuse a name that cannot be part of a key. Names in URLs have been checked before; names in bodies have not."""
    if not name:
        raise errors.bad_request("Name parameter required.")
    if wrong := names.path_segment(name):
        raise errors.bad_request(f'Name parameter invalid: "{name}": {";".join(wrong)}')


def assigned(pod: Object, name: str, node: str, binding: Object, now: str) -> Object:
    """Return a copy of a Pod that is bound to a node.

    Args:
        pod: The Pod.
        name: Name of the Pod, for messages.
        node: Name of the node.
        binding: Metadata of the Binding. Its labels and annotations are added to the Pod.
        now: Time of the request in RFC 3339.

    Raises:
        StatusError: 409 if the Pod is being deleted, already has a node, or has scheduling gates.
    """
    bound = copied(pod)
    metadata, spec = bound["metadata"], bound.setdefault("spec", {})
    why = ""
    if metadata.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise errors.conflict("pods/binding", "", name, why)
    spec["nodeName"] = node
    for key in ("annotations", "labels"):
        if binding.get(key):
            metadata[key] = {**(metadata.get(key) or {}), **binding[key]}
    status = bound.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(
        status,
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        },
    )
    return bound
