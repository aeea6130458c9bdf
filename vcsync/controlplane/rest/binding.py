"""Bindings: giving a Pod its node (`registry/core/pod/storage/storage.go` in Kubernetes)."""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.attempts import attempts
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.eviction import set_condition
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Put, Record

DONE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(registry: Registry, scope: Scope, binding: Object, dry_run: bool) -> Object:
    """Give a Pod (`scope` is of kind Pod) its node; return the answering Status.

    Raises:
        StatusError: 400, 404, 409, 422.
    """
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name") != scope.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    _check(target)
    key = scope.key()

    async def attempt(record: Record | None) -> tuple[Object | None, Record | None]:
        if record is None:
            raise registry.not_found(scope)
        pod = await registry.load(scope.kind, record)
        for name, there in (("uid", pod["metadata"].get("uid")), ("resourceVersion", str(record.revision))):
            wanted = metadata.get(name)
            if wanted and wanted != there:
                shown = {"uid": "UID", "resourceVersion": "ResourceVersion"}[name]
                why = (
                    f"Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: {there}"
                )
                raise registry.conflict(scope, why)
        bound = assigned(pod, scope.name, target["name"], metadata, scope.context.now)
        if dry_run:
            return DONE, record
        packed = stored.pack(await scope.kind.store(bound))
        outcome = await registry.commit((Compare(key, record.revision),), (Put(key, packed),))
        return (DONE, None) if outcome.done else (None, outcome.failed[0][1])

    done = await attempts(registry.store, scope, attempt)
    if done is None:
        raise registry.conflict(scope)
    return done


def _check(target: Object) -> None:
    wrong = []
    if target.get("kind") not in (None, "", "Node"):
        wrong.append(str(errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"))))
    if not target.get("name"):
        wrong.append(str(errors.required("target.name")))
    if wrong:
        raise StatusError(500, "", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


def assigned(pod: Object, name: str, node: str, binding: Object, now: str) -> Object:
    """Return the Pod with its node.

    Raises:
        StatusError: 409.
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
