"""Ephemeral containers of an existing Pod: some are added in the super cluster, others are refused by the policy.

A refused container is reported as terminated, since clients such as `kubectl debug` wait until a container runs or has
terminated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.objects.envelope import Envelope, untyped
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import TenantContext
from vcsync.syncer.kinds.pod_convert import convert_container
from vcsync.syncer.kinds.pod_policy import container_refusals

Json = dict[str, Any]

STATUSES: Final = "ephemeralContainerStatuses"
"""Field of a Pod's status."""
EXIT_CODE: Final = 128
"""Exit code of a container that never started, as the kubelet reports it for `ContainerCannotRun`."""


class Ephemeral(Struct, frozen=True):
    """The result for ephemeral containers that the super cluster's Pod lacks.

    Attributes:
        added: converted containers to add.
        refused: statuses of containers that the policy refuses, as `v1.ContainerStatus`.
        reasons: the reasons of the refusals.
    """

    added: tuple[Json, ...] = ()
    refused: tuple[Json, ...] = ()
    reasons: tuple[str, ...] = ()


NONE: Final = Ephemeral()


def check(v: Envelope, wanted: Iterable[str], existing: frozenset[str], context: TenantContext) -> Ephemeral:
    """Return which of the tenant's ephemeral containers are added and which are refused.

    They are checked like all containers, since they are added after the check of the Pod. A refused container remains
    refused when the policy changes, since kube-apiserver lets no ephemeral container leave the state `terminated`.

    Args:
        v: the tenant's Pod.
        wanted: names of its ephemeral containers.
        existing: names of the ephemeral containers of the super cluster's Pod.
        context: the tenant's settings.
    """
    if existing.issuperset(wanted):
        return NONE
    ended = {each.get("name") for each in untyped(v.status).get(STATUSES) or () if _is_refusal(each)}
    added: list[Json] = []
    refused: list[Json] = []
    reasons: list[str] = []
    for index, container in enumerate(untyped(v.spec).get("ephemeralContainers") or ()):
        name = container.get("name")
        if name in existing:
            continue
        refusals = list(container_refusals(container, f"spec.ephemeralContainers[{index}]", context.policy))
        if refusals:
            reasons += refusals
            refused.append(_status_of(container, "; ".join(refusals)))
        elif name not in ended:
            convert_container(container, v, context)
            added.append(container)
    return Ephemeral(tuple(added), tuple(refused), tuple(reasons))


def with_refused(have: Mapping[str, Any], want: Mapping[str, Any], refused: Iterable[Json]) -> list[Json]:
    """Return the statuses of ephemeral containers that the tenant's Pod should have.

    Args:
        have: the tenant Pod's status.
        want: the super cluster Pod's status.
        refused: statuses of the containers that are refused.
    """
    statuses: list[Json] = list(want.get(STATUSES) or ())
    known = {each.get("name") for each in statuses}
    kept = [each for each in have.get(STATUSES) or () if _is_refusal(each) and each.get("name") not in known]
    known |= {each.get("name") for each in kept}
    return [*statuses, *kept, *(each for each in refused if each["name"] not in known)]


def _is_refusal(status: Mapping[str, Any]) -> bool:
    terminated = (status.get("state") or {}).get("terminated") or {}
    return bool(terminated.get("reason") == metadata.POLICY_REFUSED)


def _status_of(container: Mapping[str, Any], message: str) -> Json:
    terminated = {"exitCode": EXIT_CODE, "reason": metadata.POLICY_REFUSED, "message": message}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
