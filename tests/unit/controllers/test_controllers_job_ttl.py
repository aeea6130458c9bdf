"""Jobs with a TTL are deleted after their end."""

from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.framework.plan import Delete
from vcsync.controllers.job.ttl_plan import TTL_AFTER_FINISHED
from vcsync.kube.resources import JOBS


def world(ttl: int | None, end: str = "Complete") -> World:
    made = World([TTL_AFTER_FINISHED])
    spec: dict[str, Any] = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    condition = {"type": end, "status": "True", "lastTransitionTime": made.time()}
    body = {"metadata": {"name": "sum"}, "spec": spec, "status": {"conditions": [condition]}}
    made.put(JOBS, body)
    return made


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_job_and_its_pods_are_deleted_after_the_ttl(end: str) -> None:
    made = world(60, end)
    made.pass_time(20)
    assert made.work("ttl-after-finished-controller", made.key("default", "sum")).again == 40
    made.pass_time(40)
    made.settle()
    [deletion] = made.written
    assert isinstance(deletion, Delete)
    assert (deletion.propagation, made.bodies(JOBS)) == ("Foreground", [])


@pytest.mark.parametrize(("ttl", "end"), [(None, "Complete"), (0, "Suspended"), (0, "FailureTarget")])
def test_a_job_without_ttl_or_end_is_kept(ttl: int | None, end: str) -> None:
    made = world(ttl, end)
    made.pass_time(1000)
    made.settle()
    assert len(made.bodies(JOBS)) == 1
