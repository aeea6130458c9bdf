"""ServiceCIDRs are ready as soon as they exist."""

from controllers_world import World

from vcsync.controllers.network.service_cidr_plan import SERVICE_CIDR
from vcsync.kube.resources import SERVICE_CIDRS

READY = "Kubernetes Service CIDR is ready"


def settled(**status: object) -> list[dict[str, object]]:
    world = World([SERVICE_CIDR])
    body = {"metadata": {"name": "tenants"}, "spec": {"cidrs": ["10.64.0.0/20"]}, "status": status}
    world.put(SERVICE_CIDRS, body)
    world.settle()
    found: list[dict[str, object]] = world.body(SERVICE_CIDRS, "tenants")["status"]["conditions"]
    return found


def test_a_service_cidr_becomes_ready() -> None:
    [ready] = settled()
    assert (ready["type"], ready["status"], ready["message"]) == ("Ready", "True", READY)
    assert ready["lastTransitionTime"]


def test_conditions_of_others_stay() -> None:
    other = {"type": "Mine", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}
    late = {**other, "type": "Ready", "status": "False"}
    assert [each["type"] for each in settled(conditions=[late, other])] == ["Mine", "Ready"]


def test_one_that_is_ready_is_not_written() -> None:
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}
    assert settled(conditions=[before]) == [before]
