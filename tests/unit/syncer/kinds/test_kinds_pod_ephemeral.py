"""Ephemeral containers that a policy refuses, and their statuses in the tenant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT

from vcsync.api.specs import PodPolicy
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.pod_ephemeral import EXIT_CODE, STATUSES, check, with_refused
from vcsync.syncer.kinds.pod_policy import container_refusals

PRIVILEGED = {"name": "debug", "image": "busybox", "securityContext": {"privileged": True}}


def refusal(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"reason": metadata.POLICY_REFUSED}}}


def running(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"running": {}}}


def test_a_refused_ephemeral_container_has_the_status_of_a_failed_start() -> None:
    pod = Envelope("p", "n", "u", "1", spec=msgspec.json.encode({"ephemeralContainers": [PRIVILEGED]}))
    found = check(pod, ["debug"], frozenset(), CONTEXT)
    (reason,) = found.reasons
    assert reason.startswith("spec.ephemeralContainers[0].securityContext.privileged")
    terminated = {"exitCode": EXIT_CODE, "reason": metadata.POLICY_REFUSED, "message": reason}
    assert found.refused == (
        {
            "name": "debug",
            "image": "busybox",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        },
    )
    assert found.added == ()


def test_only_refusals_are_kept_of_the_tenants_statuses() -> None:
    have = {STATUSES: [running("gone"), refusal("refused"), refusal("started")]}
    want = {STATUSES: [running("started")]}
    assert with_refused(have, want, [refusal("refused"), refusal("new")]) == [
        running("started"),
        refusal("refused"),
        refusal("new"),
    ]


def test_the_image_of_an_ephemeral_container_comes_from_an_allowed_registry() -> None:
    policy = PodPolicy(image_registries=("ghcr.io",))
    assert not list(container_refusals({"name": "e", "image": "ghcr.io/x"}, "spec.x", policy))
    (refused,) = container_refusals({"name": "e", "image": "busybox"}, "spec.x", policy)
    assert refused.startswith("container \"e\" uses image 'busybox'")


@pytest.mark.parametrize(("allowed", "refused"), [("Allow", []), ("Refuse", ["spec.x.ports[1].hostPort"])])
def test_a_port_of_the_host_is_refused_unless_the_policy_allows_it(allowed: Any, refused: list[str]) -> None:
    container = {"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}
    found = container_refusals(container, "spec.x", PodPolicy(host_port=allowed))
    assert [each.partition(" ")[0] for each in found] == refused
