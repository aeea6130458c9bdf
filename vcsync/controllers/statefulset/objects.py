"""StatefulSets as their controller reads them, and the Pods and claims that it creates. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset`.
"""

from typing import Any, Literal

from msgspec import Struct

from vcsync.controllers.deployment.objects import amount
from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Create
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.selectors import LabelSelector, Selector, compile_selector
from vcsync.patterns.linear import linear

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"
_MEMBER = linear(r"(?s)(.*)-([0-9]+)")
_MOST = 2**31

Retention = Literal["Retain", "Delete"]


class RollingUpdate(Struct, frozen=True, rename="camel"):
    """The bounds of a rolling update."""

    partition: int = 0
    max_unavailable: int | str | None = None


class UpdateStrategy(Struct, frozen=True, rename="camel"):
    """`RollingUpdate` or `OnDelete`."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class Ordinals(Struct, frozen=True):
    """The number of the first Pod."""

    start: int = 0


class RetentionPolicy(Struct, frozen=True, rename="camel"):
    """Whether claims are kept after their set is deleted or scaled down."""

    when_deleted: Retention = "Retain"
    when_scaled: Retention = "Retain"


class Metadata(Struct, frozen=True, rename="camel"):
    """The metadata of a claim's template."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None


class ClaimTemplate(Struct):
    """One of a StatefulSet's claim templates."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}


class StatefulSetSpec(Struct, rename="camel"):
    """The parts of a StatefulSet's spec."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    ordinals: Ordinals | None = None
    volume_claim_templates: tuple[ClaimTemplate, ...] | None = None
    persistent_volume_claim_retention_policy: RetentionPolicy | None = None


class StatefulSetStatus(Struct, rename="camel"):
    """The status that the controller writes."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None


class StatefulSet(Struct, frozen=True):
    """One StatefulSet."""

    envelope: Envelope
    spec: StatefulSetSpec
    status: StatefulSetStatus
    template: dict[str, Any]
    selector: Selector

    @property
    def ordinals(self) -> range:
        """Return the numbers of its Pods, up to the largest that `ordinal_of` reads."""
        start = self.spec.ordinals.start if self.spec.ordinals else 0
        return range(start, min(start + self.spec.replicas, _MOST))

    @property
    def parallel(self) -> bool:
        """Return whether its Pods start and end without waiting for each other."""
        return self.spec.pod_management_policy == "Parallel"

    @property
    def rolling(self) -> bool:
        """Return whether it replaces Pods of earlier templates by itself."""
        return self.spec.update_strategy.type == "RollingUpdate"

    @property
    def partition(self) -> int:
        """Return the number of first Pods that keep the current template."""
        rolling = self.spec.update_strategy.rolling_update
        return rolling.partition if rolling else 0

    @property
    def unavailable(self) -> int | None:
        """Return the number of Pods that an update may make unavailable at a time; None: one after another, in order."""
        rolling = self.spec.update_strategy.rolling_update
        if rolling is None or rolling.max_unavailable is None:
            return None
        return max(amount(rolling.max_unavailable, self.spec.replicas, up=False), 1)

    @property
    def retention(self) -> RetentionPolicy:
        """Return the retention policy of claims."""
        return self.spec.persistent_volume_claim_retention_policy or RetentionPolicy()

    @property
    def claims(self) -> tuple[ClaimTemplate, ...]:
        """Return the templates of the claims of every Pod."""
        return self.spec.volume_claim_templates or ()

    def claim_name(self, claim: ClaimTemplate, ordinal: int) -> str:
        """Return the name of a Pod's claim."""
        return f"{claim.metadata.name}-{self.envelope.name}-{ordinal}"

    def pod_name(self, ordinal: int) -> str:
        """Return the name of a Pod."""
        return f"{self.envelope.name}-{ordinal}"


def read_stateful_set(envelope: Envelope) -> StatefulSet:
    """Read a StatefulSet."""
    spec = decode(envelope.spec, StatefulSetSpec)
    status = decode(envelope.status, StatefulSetStatus)
    template = untyped(envelope.spec).get("template") or {}
    return StatefulSet(envelope, spec, status, template, compile_selector(spec.selector))


def ordinal_of(pod: Envelope, set_name: str) -> int | None:
    """Return the number of a set's Pod by its name; None: it is not one of them."""
    match = _MEMBER.fullmatch(pod.name)
    if match is None or match[1] != set_name or len(match[2]) > len(str(_MOST)):
        return None
    number = int(match[2])
    return number if number < _MOST else None


def identity(set_: StatefulSet, ordinal: int) -> dict[str, str]:
    """Return the labels with a Pod's name and number."""
    return {POD_NAME_LABEL: set_.pod_name(ordinal), INDEX_LABEL: str(ordinal)}


def new_pod(set_: StatefulSet, ordinal: int, template: dict[str, Any], revision: str) -> Create:
    """Return the creation of a Pod from a template."""
    template_meta = template.get("metadata") or {}
    name = set_.pod_name(ordinal)
    metadata: dict[str, Any] = {
        each: template_meta[each] for each in ("annotations", "finalizers") if template_meta.get(each)
    }
    metadata |= {
        "name": name,
        "labels": {
            **(template_meta.get("labels") or {}),
            **identity(set_, ordinal),
            REVISION_LABEL: revision,
        },
        "ownerReferences": [ownership.reference(STATEFUL_SETS, set_.envelope)],
    }
    spec = dict(template.get("spec") or {})
    claimed = {each.metadata.name: {"claimName": set_.claim_name(each, ordinal)} for each in set_.claims}
    volumes = [{"name": each, "persistentVolumeClaim": claim} for each, claim in claimed.items()]
    volumes += [each for each in spec.get("volumes") or () if each["name"] not in claimed]
    spec |= {"hostname": name, "subdomain": set_.spec.service_name} | (
        {"volumes": volumes} if volumes else {}
    )
    return Create(PODS, namespace_of(set_.envelope), {"metadata": metadata, "spec": spec})


def new_claim(set_: StatefulSet, ordinal: int, template: ClaimTemplate) -> Create:
    """Return the creation of a Pod's claim. The set owns it from the start if it is deleted with the set."""
    template_meta = template.metadata
    labels = {**(template_meta.labels or {}), **(set_.spec.selector.match_labels or {})}
    metadata: dict[str, Any] = {"name": set_.claim_name(template, ordinal), "labels": labels}
    metadata |= {"annotations": template_meta.annotations} if template_meta.annotations else {}
    metadata |= {"finalizers": template_meta.finalizers} if template_meta.finalizers else {}
    if set_.retention.when_deleted == "Delete":
        metadata["ownerReferences"] = [ownership.reference(STATEFUL_SETS, set_.envelope)]
    body = {"metadata": metadata, "spec": template.spec}
    return Create(PERSISTENT_VOLUME_CLAIMS, namespace_of(set_.envelope), body)
