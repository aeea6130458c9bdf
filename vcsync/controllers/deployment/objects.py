"""Deployments and their ReplicaSets as the Deployment controller reads them. Pure."""

import hashlib
import math
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.selectors import LabelSelector, Selector, compile_selector

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)
"""Annotations of a Deployment that are not copied to its ReplicaSets."""
NO_DEADLINE = 2**31 - 1
NO_LIMIT = 2**31 - 1
LONGEST_NUMBER = 20
"""Most digits of a number in an annotation."""
_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME = 253


class RollingUpdate(Struct, frozen=True, rename="camel"):
    """The bounds of a rolling update above and below the requested number of Pods."""

    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class Strategy(Struct, frozen=True, rename="camel"):
    """`RollingUpdate` or `Recreate`."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Struct, rename="camel"):
    """The parts of a Deployment's spec."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = NO_LIMIT
    paused: bool = False
    progress_deadline_seconds: int = NO_DEADLINE


class DeploymentCondition(Condition, rename="camel"):
    """A condition of a Deployment, which also records when it was last confirmed."""

    last_update_time: str | None = None


class DeploymentStatus(Struct, rename="camel"):
    """A Deployment's status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] | None = None


class SetSpec(Struct, rename="camel"):
    """The parts of a ReplicaSet's spec."""

    replicas: int = 1
    min_ready_seconds: int = 0


class SetStatus(Struct, rename="camel"):
    """The parts of a ReplicaSet's status."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] | None = None


class ReplicaSet(Struct, frozen=True):
    """One ReplicaSet of a Deployment. `revision` 0: unknown."""

    envelope: Envelope
    template: dict[str, Any]
    replicas: int
    min_ready_seconds: int
    status: SetStatus
    revision: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.envelope.name

    @property
    def age(self) -> tuple[str, str]:
        """Return the sort key by age, the oldest first."""
        return self.envelope.creation_timestamp, self.envelope.name


class Deployment(Struct, frozen=True):
    """One Deployment."""

    envelope: Envelope
    spec: DeploymentSpec
    status: DeploymentStatus
    template: dict[str, Any]
    selector: Selector

    @property
    def rolling(self) -> bool:
        """Return whether the strategy is RollingUpdate."""
        return self.spec.strategy.type == "RollingUpdate"

    @property
    def surge(self) -> int:
        """Return the number of Pods that may exist beyond the requested number."""
        return self._fenceposts[0] if self.rolling else 0

    @property
    def unavailable(self) -> int:
        """Return the number of requested Pods that may be unavailable."""
        if not self.rolling or not self.spec.replicas:
            return 0
        return min(self._fenceposts[1], self.spec.replicas)

    @property
    def _fenceposts(self) -> tuple[int, int]:
        rolling = self.spec.strategy.rolling_update or RollingUpdate()
        surge = amount(rolling.max_surge, self.spec.replicas, up=True)
        unavailable = amount(rolling.max_unavailable, self.spec.replicas, up=False)
        return (surge, unavailable) if surge or unavailable else (0, 1)

    @property
    def has_deadline(self) -> bool:
        """Return whether a lack of progress is reported."""
        return self.spec.progress_deadline_seconds != NO_DEADLINE


def read_deployment(envelope: Envelope) -> Deployment:
    """Read a Deployment."""
    spec = decode(envelope.spec, DeploymentSpec)
    status = decode(envelope.status, DeploymentStatus)
    template = untyped(envelope.spec).get("template") or {}
    return Deployment(envelope, spec, status, template, compile_selector(spec.selector))


def read_set(envelope: Envelope) -> ReplicaSet:
    """Read a ReplicaSet."""
    spec = decode(envelope.spec, SetSpec)
    template = untyped(envelope.spec).get("template") or {}
    status = decode(envelope.status, SetStatus)
    return ReplicaSet(
        envelope, template, spec.replicas, spec.min_ready_seconds, status, number(envelope, REVISION) or 0
    )


def amount(value: int | str, whole: int, *, up: bool) -> int:
    """Return the absolute value of a number or of a percentage of `whole`."""
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * whole / 100
    return math.ceil(share) if up else math.floor(share)


def number(envelope: Envelope, annotation: str) -> int | None:
    """Return the number in an annotation; None: missing or invalid."""
    text = envelope.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER else None


def same_template(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two Pod templates are equal, ignoring their hash label."""
    return _unlabelled(one) == _unlabelled(other)


def _unlabelled(template: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    kept = {name: value for name, value in metadata.items() if value and name != "labels"}
    return {**template, "metadata": {**kept, "labels": labels}}


def template_hash(template: dict[str, Any], collisions: int | None) -> str:
    """Return the hash of a Pod template that distinguishes it in names and labels.

    Clients compare templates and not hashes, so it need not equal the number that other controllers compute.
    """
    canonical = msgspec.json.encode(_unlabelled(template), order="sorted")
    digest = hashlib.sha256(canonical + str(collisions or 0).encode()).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest[:10])


def set_name(deployment: str, hash_: str) -> str:
    """Return the name of the ReplicaSet with this hash."""
    return f"{deployment[: _LONGEST_NAME - len(hash_) - 1]}-{hash_}"
