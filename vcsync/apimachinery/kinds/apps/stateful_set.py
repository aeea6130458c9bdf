"""The kind StatefulSet: defaults, validation, allowed updates, status and columns. Pure.

Source: `ValidateStatefulSet*` in Kubernetes' `pkg/apis/apps/validation`, `pkg/registry/apps/statefulset`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import persistent_volume_claim, pod_defaults, pod_validation
from vcsync.apimachinery.kinds.core.pod_annotations import pod_annotations
from vcsync.apimachinery.kinds.core.workload_columns import ready
from vcsync.apimachinery.kinds.core.workloads import (
    available_are_ready,
    changed_template_warnings,
    collisions,
    fewer_than_replicas,
    own_selector,
    runs_forever,
    selected_labels,
    shown_strategy,
)
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    annotations,
    indexed,
    items,
    labels,
    nonnegative,
    number,
    one_of,
    part,
    say,
    text,
    understood,
)
from vcsync.apimachinery.wire import cells

_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FROZEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_COUNTS = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def _default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"podManagementPolicy": "OrderedReady", "updateStrategy": {}})
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        fill(strategy["rollingUpdate"], {"partition": 0})
    fill(spec, {"persistentVolumeClaimRetentionPolicy": {}, "replicas": 1, "revisionHistoryLimit": 10})
    fill(spec["persistentVolumeClaimRetentionPolicy"], {"whenDeleted": "Retain", "whenScaled": "Retain"})
    pod_defaults.template(spec.get("template"))
    for each in items(spec, "volumeClaimTemplates"):
        each.update(apiVersion="v1", kind="PersistentVolumeClaim")
        fill(each.setdefault("status", {}), {"phase": "Pending"})
        if isinstance(each.get("spec"), dict):
            persistent_volume_claim.default_spec(each["spec"])


def _create(new: Object, _: Context) -> None:
    spec = part(new, "spec")
    part(spec, "updateStrategy", "rollingUpdate").pop("maxUnavailable", None)


def _update(new: Object, _old: Object, context: Context) -> None:
    _create(new, context)


def _findings(spec: Object, *, creating: bool) -> Findings:
    policy = text(spec, "podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield errors.wrong("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _strategy("spec.updateStrategy", part(spec, "updateStrategy"))
    retention = part(spec, "persistentVolumeClaimRetentionPolicy")
    for key in ("whenDeleted", "whenScaled"):
        yield from one_of(
            f"spec.persistentVolumeClaimRetentionPolicy.{key}", text(retention, key), ("Retain", "Delete")
        )
    if creating:
        for each, here in indexed(spec, "volumeClaimTemplates", "spec.volumeClaimTemplates"):
            yield from persistent_volume_claim.spec(f"{here}.spec", part(each, "spec"))
    yield from nonnegative(spec, "spec", "replicas", "minReadySeconds")
    start = number(part(spec, "ordinals"), "start")
    if start < 0:
        yield errors.wrong("spec.ordinals.start", start, "must be greater than or equal to 0")
    service = text(spec, "serviceName")
    if creating and service:
        yield from say("spec.serviceName", service, names.dns_label(service))
    yield from own_selector("spec", spec, "statefulset")
    yield from _template(spec)
    yield from runs_forever("spec", spec, "StatefulSet")


def _strategy(path: str, strategy: Object) -> Findings:
    kind, rolling = text(strategy, "type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            partition = {"Partition": number(rolling, "partition"), "MaxUnavailable": None}
            yield errors.wrong(
                f"{path}.rollingUpdate", partition, "only allowed for updateStrategy 'RollingUpdate'"
            )
    elif kind == "RollingUpdate":
        yield from nonnegative(part(strategy, "rollingUpdate"), f"{path}.rollingUpdate", "partition")
    else:
        shown: Object = shown_strategy(strategy, "partition")
        if rolling is not None:
            shown["RollingUpdate"] = {**shown["RollingUpdate"], "MaxUnavailable": None}
        yield errors.wrong(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def _template(spec: Object) -> Findings:
    if not understood(spec.get("selector")):
        yield errors.wrong("spec.selector", spec.get("selector"), "")
        return
    yield from selected_labels("spec", spec)
    template = part(spec, "template")
    pod = {
        key: value for key, value in part(template, "spec").items() if key not in ("hostname", "subdomain")
    }
    made = list(
        dict.fromkeys(text(part(each, "metadata"), "name") for each in items(spec, "volumeClaimTemplates"))
    )
    if made:
        own = [each for each in items(pod, "volumes") if text(each, "name") not in made]
        pod["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in made] + own
    yield from pod_validation.template("spec.template", {**template, "spec": pod})
    metadata = part(template, "metadata")
    yield from labels("spec.template.labels", part(metadata, "labels"))
    yield from annotations("spec.template.annotations", part(metadata, "annotations"))
    yield from pod_annotations("spec.template.annotations", part(metadata, "annotations"), pod)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_findings(now, creating=False))
    if {key: value for key, value in now.items() if key not in _CHANGEABLE} != {
        key: value for key, value in was.items() if key not in _CHANGEABLE
    }:
        found.append(errors.not_allowed("spec", _FROZEN))
    return found


def _status(new: Object, old: Object) -> list[FieldError]:
    status = part(new, "status")
    return [
        *nonnegative(status, "status", *_COUNTS, "observedGeneration", "collisionCount"),
        *fewer_than_replicas("status", status, *_COUNTS[1:]),
        *available_are_ready("status", status, "cannot be greater than status.readyReplicas"),
        *collisions("status", status, part(old, "status")),
    ]


def _warnings(new: Object, old: Object | None) -> list[str]:
    found = changed_template_warnings(new, old, part(new, "spec", "template"))
    for each, here in indexed(part(new, "spec"), "volumeClaimTemplates", "spec.volumeClaimTemplates"):
        path = here if old is None else f"{here}.Spec"  # as upstream's strategy says
        found += persistent_volume_claim.spec_warnings(path, part(each, "spec"))
    if number(part(new, "spec"), "revisionHistoryLimit") < 0:
        message = "a negative value retains all historical revisions; a value >= 0 is recommended"
        found.append(f"spec.revisionHistoryLimit: {message}")
    return found


KIND = Kind(
    group="apps",
    kind="StatefulSet",
    plural="statefulsets",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=_default,
    prepare_create=_create,
    prepare_update=_update,
    validate=lambda found: list(_findings(part(found, "spec"), creating=True)),
    validate_update=_validate_update,
    warnings=_warnings,
    status_validate=_status,
    validate_name=names.label_name,
    columns={"Name": cells.name, "Ready": ready, "Age": cells.age, **cells.containers_of("spec.template")},
    resets={"": STATUS, "status": SPEC},
)
