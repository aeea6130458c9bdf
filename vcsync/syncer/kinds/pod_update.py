"""Updates an existing Pod in the super cluster: returns patches for the fields that differ from the tenant's Pod.

Only fields that a tenant can change and that the syncer owns are compared. They are decoded by types without other fields,
since most reconciles find no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from vcsync.api import names, without_effect
from vcsync.kube.resources import PODS
from vcsync.objects import quantity
from vcsync.objects.envelope import Envelope, untyped
from vcsync.syncer.kinds import metadata, pod_downward, pod_limits
from vcsync.syncer.kinds.plan import Action, Notify, Patch, TenantContext
from vcsync.syncer.kinds.pod_convert import with_requests
from vcsync.syncer.kinds.pod_ephemeral import Ephemeral
from vcsync.syncer.kinds.pod_policy import image_refusal, toleration_refusal

_NOTHING = Raw(b"")


class Container(Struct, gc=False):
    """The fields of a container that can change."""

    name: str
    image: str = ""
    resources: Raw = _NOTHING


class EphemeralContainer(Struct, gc=False):
    """An ephemeral container's name; it cannot change."""

    name: str


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    """One toleration, with defaults, for comparison."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ReadinessGate(Struct, gc=False, rename="camel"):
    """A readiness gate, whose condition the tenant sets."""

    condition_type: str


class PodSpec(Struct, rename="camel"):
    """The fields of an existing Pod's spec that plans read."""

    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    ephemeral_containers: list[EphemeralContainer] = field(default_factory=list)
    node_name: str = ""
    service_account_name: str = "default"
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: Raw = _NOTHING
    readiness_gates: list[ReadinessGate] = field(default_factory=list)


_decode_spec = Decoder(PodSpec).decode
_decode_tolerations = Decoder(list[Toleration]).decode


def pod_spec(envelope: Envelope) -> PodSpec:
    """Decode the fields of an existing Pod's spec that plans read."""
    return _decode_spec(envelope.spec) if envelope.spec else PodSpec()


def update(
    v: Envelope,
    p: Envelope,
    want: PodSpec,
    have: PodSpec,
    context: TenantContext,
    *,
    ephemeral: Ephemeral,
    most: Mapping[str, int],
) -> tuple[tuple[Action, ...], bool]:
    """Return the patches that make p equal to v, and whether p's spec is up to date already.

    Args:
        v: the tenant's Pod.
        p: the super cluster's Pod.
        want: v's spec.
        have: p's spec.
        context: the tenant's settings.
        ephemeral: the result for ephemeral containers that p lacks.
        most: the largest limits of a container here, in thousandths.
    """
    refused: list[str] = []
    spec: dict[str, Any] = {}
    for name, wanted, actual in (
        ("containers", want.containers, have.containers),
        ("initContainers", want.init_containers, have.init_containers),
    ):
        if images := _images(wanted, actual, context, refused):
            spec[name] = images
    if want.active_deadline_seconds != have.active_deadline_seconds:
        spec["activeDeadlineSeconds"] = want.active_deadline_seconds
    if want.termination_grace_period_seconds == 1 and (have.termination_grace_period_seconds or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if want.tolerations != have.tolerations and (
        tolerations := _tolerations(want.tolerations, have.tolerations, context, refused)
    ):
        spec["tolerations"] = tolerations
    resizes = [*_resizes("containers", want.containers, have.containers, most)]
    resizes += _resizes("initContainers", want.init_containers, have.init_containers, most)
    refused += ephemeral.reasons
    changes, notices = _metadata(v, p, context, refused, debugged=bool(ephemeral.added))
    actions: list[Action] = []
    if changes or spec:
        body: dict[str, Any] = {"metadata": {**changes, "uid": p.uid}}
        if spec:
            body["spec"] = spec
        actions.append(Patch("super", PODS, p.namespace, p.name, p.uid, body, "strategic"))
    if resizes:
        resized: dict[str, list[dict[str, Any]]] = {}
        for name, container in resizes:
            resized.setdefault(name, []).append(container)
        actions.append(_subresource(p, {"spec": resized}, "resize"))
    if ephemeral.added:
        body = {"spec": {"ephemeralContainers": list(ephemeral.added)}}
        actions.append(_subresource(p, body, "ephemeralcontainers"))
        actions.append(Notify("Warning", without_effect.REASON, without_effect.DEBUGGED))
    return (*actions, *notices), not (spec or resizes or ephemeral.added)


def _subresource(p: Envelope, body: dict[str, Any], subresource: str) -> Patch:
    body = {"metadata": {"uid": p.uid}, **body}
    return Patch("super", PODS, p.namespace, p.name, p.uid, body, "strategic", subresource)


# --- Metadata --------------------------------------------------------------------------------------------


def _metadata(
    v: Envelope, p: Envelope, context: TenantContext, refused: list[str], *, debugged: bool
) -> tuple[dict[str, Any], tuple[Notify, ...]]:
    labels = metadata.desired_labels(PODS, v, context)
    labels[names.CLUSTER] = context.key
    annotations = metadata.desired_annotations(PODS, v, context)
    if debugged or any(key.startswith(names.DOWNWARD_PREFIX) for key in p.annotations):
        annotations |= pod_downward.extra_annotations(untyped(v.spec), v, context)
    notices: tuple[Notify, ...] = ()
    reported = p.annotations.get(names.REFUSED)
    if refused:
        text = annotations[names.REFUSED] = "; ".join(refused)
        if text != reported:
            notices = (Notify("Warning", metadata.POLICY_REFUSED, text),)
    changes = metadata.metadata_patch(PODS, v, p, context, labels=labels, annotations=annotations)
    _keep_shown(v, p, changes)
    if reported is not None and not refused:
        changes.setdefault("annotations", {})[names.REFUSED] = None
    return changes, notices


def _keep_shown(v: Envelope, p: Envelope, changes: dict[str, Any]) -> None:
    """Drop removals of what p's downward API shows and the tenant has: its files and variables would become empty.

    Such Pods were created when these keys were copied. The values stay as they are until the Pod ends.
    """
    if not any(value is None for changed in changes.values() for value in changed.values()):
        return
    tenants = {"labels": v.labels, "annotations": v.annotations}
    for part, key in pod_downward.shown_as_is(untyped(p.spec)):
        if key in tenants[part] and changes.get(part, {}).get(key, "") is None:
            del changes[part][key]
            if not changes[part]:
                del changes[part]


# --- Spec ------------------------------------------------------------------------------------------------


def _images(
    wanted: list[Container], actual: list[Container], context: TenantContext, refused: list[str]
) -> list[dict[str, str]]:
    """Return the images to change, by container name. Sidecars that a webhook of the super cluster added are ignored."""
    images = {container.name: container.image for container in actual}
    changes: list[dict[str, str]] = []
    for container in wanted:
        if images.get(container.name, container.image) == container.image:
            continue
        if refusal := image_refusal(container.name, container.image, context.policy):
            refused.append(refusal)
        else:
            changes.append({"name": container.name, "image": container.image})
    return changes


def _tolerations(
    wanted: Raw, actual: Raw, context: TenantContext, refused: list[str]
) -> list[dict[str, Any]]:
    """Return all tolerations that p should have; empty if p has those of v.

    Tolerations can only be added, or change their tolerationSeconds (core validation).
    """
    have = _decode_tolerations(actual) if actual else []
    want = _decode_tolerations(wanted) if wanted else []
    missing = [index for index, toleration in enumerate(want) if toleration not in have]
    if not missing:
        return []
    result: list[dict[str, Any]] = untyped(bytes(actual)) if actual else []
    raw_want = untyped(bytes(wanted))
    # A toleration whose tolerationSeconds changed is replaced in its place.
    places = {
        _without_seconds(toleration): place for place, toleration in enumerate(have) if toleration not in want
    }
    changed = False
    for index in missing:
        if refusal := toleration_refusal(raw_want[index], f"spec.tolerations[{index}]", context.policy):
            refused.append(refusal)
            continue
        changed = True
        place = places.get(_without_seconds(want[index]))
        if place is None:
            result.append(raw_want[index])
        else:
            result[place] = raw_want[index]
    return result if changed else []


def _without_seconds(toleration: Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


def _resizes(
    name: str, wanted: list[Container], actual: list[Container], most: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (field, container) for each container of p whose resources differ from v's (KEP-1287)."""
    have = {container.name: container.resources for container in actual}
    for container in wanted:
        raw = have.get(container.name)
        if raw is None or raw == container.resources:
            continue
        want = with_requests(_resources(container.resources))
        if change := _resource_change(want, _resources(raw), most):
            yield name, {"name": container.name, "resources": change}


def _resources(raw: Raw) -> dict[str, Any]:
    decoded: dict[str, Any] = untyped(bytes(raw)) or {}
    return decoded


def _resource_change(
    want: dict[str, Any], have: dict[str, Any], most: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Return the requests and limits of v that differ on p. Amounts that the super cluster added are kept."""
    actual = have.get("requests") or {}
    requests = {
        resource: amount
        for resource, amount in (want.get("requests") or {}).items()
        if not _same_amount(amount, actual.get(resource))
    }
    change = {"requests": requests, "limits": pod_limits.changed(want, have, most)}
    return {part: amounts for part, amounts in change.items() if amounts}


def _same_amount(want: str, have: str | None) -> bool:
    if want == have:
        return True
    return have is not None and quantity.milli(want) == quantity.milli(have)
