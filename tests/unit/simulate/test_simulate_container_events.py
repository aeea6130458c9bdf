"""The Events of containers that start and are stopped, with kubelets' words."""

from typing import Any

import msgspec

from vcsync.simulate.container_events import begun, stopping
from vcsync.simulate.reports import Spec, Status

SPEC = msgspec.convert(
    {
        "initContainers": [{"name": "first", "image": "busybox"}],
        "containers": [{"name": "c", "image": "nginx"}, {"name": "d", "image": "redis"}],
    },
    Spec,
)


def status(restarts: int, *, ended: bool = False) -> dict[str, Any]:
    state: dict[str, Any] = {"terminated": {}} if ended else {"running": {}}
    return {
        "containerStatuses": [
            {"name": "c", "restartCount": restarts, "state": state},
            {"name": "d", "restartCount": 0, "state": state},
        ]
    }


def test_each_container_is_pulled_created_and_started() -> None:
    told = begun(SPEC, Status(), {"phase": "Running", **status(0)})
    assert [(each.field_path, each.reason) for each in told] == [
        (path, reason)
        for path in ("spec.initContainers{first}", "spec.containers{c}", "spec.containers{d}")
        for reason in ("Pulled", "Created", "Started")
    ]
    assert [each.message for each in told[3:6]] == [
        'Container image "nginx" already present on machine and can be accessed by the pod',
        "Container created",
        "Container started",
    ]


def test_a_container_that_is_restarted_starts_again() -> None:
    before = msgspec.convert(status(0), Status)
    assert {each.field_path for each in begun(SPEC, before, status(1))} == {"spec.containers{c}"}
    assert begun(SPEC, before, status(0)) == []
    assert begun(SPEC, before, {"phase": "Failed", **status(1, ended=True)}) == []
    assert begun(SPEC, before, {"conditions": []}) == []


def test_each_container_of_a_deleted_pod_is_killed() -> None:
    assert [tuple(each) for each in stopping(SPEC)] == [
        ("spec.containers{c}", "Killing", "Stopping container c"),
        ("spec.containers{d}", "Killing", "Stopping container d"),
    ]
