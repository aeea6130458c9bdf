"""Warnings about objects and changes without effect where the Pods of the tenant run."""

import pytest

from vcsync.api.without_effect import DEBUGGED, SCHEDULER_NAME, WITHOUT_EFFECT
from vcsync.apiserver.admission.without_effect import warn_of_no_effect

ONE = {"metadata": {"name": "one"}}


@pytest.mark.parametrize("of", WITHOUT_EFFECT)
async def test_tenants_with_virtual_nodes_are_warned(admit, scope, of):
    asking = scope(*of)
    assert await admit(warn_of_no_effect, ONE, scope=asking) == ONE
    assert asking.warnings == [WITHOUT_EFFECT[of]]


@pytest.mark.parametrize("data", [{"controllers": "external"}, {"controllers": "vcsync", "nodes": "own"}])
async def test_tenants_with_their_own_controllers_or_nodes_are_not_warned(admit, things, scope, data):
    things.add("", "configmaps", "t.controllers", "kube-system", data=data)
    asking = scope("", "persistentvolumeclaims")
    await admit(warn_of_no_effect, ONE, scope=asking)
    assert asking.warnings == []


def pod(scheduler):
    return {"metadata": {"name": "p"}, "spec": {"schedulerName": scheduler} if scheduler else {}}


def deployment(scheduler):
    return {"metadata": {"name": "d"}, "spec": {"template": pod(scheduler)}}


def cron_job(scheduler):
    return {"metadata": {"name": "c"}, "spec": {"jobTemplate": deployment(scheduler)}}


@pytest.mark.parametrize(
    ("of", "made"),
    [(("", "pods"), pod), (("apps", "deployments"), deployment), (("batch", "cronjobs"), cron_job)],
)
@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        (None, "own", True),
        ("", "own", True),
        ("own", "other", True),
        ("own", "own", False),
        ("own", "", False),
        (None, "", False),
        (None, "default-scheduler", False),
    ],
)
async def test_scheduler_names_are_warned_of_once(admit, scope, of, made, old, new, warned):
    asking = scope(*of)
    await admit(warn_of_no_effect, made(new), scope=asking, old=None if old is None else made(old))
    assert asking.warnings == ([SCHEDULER_NAME] if warned else [])


async def test_debug_containers_are_warned_of(admit, scope):
    asking = scope("", "pods", subresource="ephemeralcontainers")
    await admit(warn_of_no_effect, ONE, scope=asking, old=ONE)
    assert asking.warnings == [DEBUGGED]
    status = scope("", "pods", subresource="status")
    await admit(warn_of_no_effect, ONE, scope=status, old=ONE)
    assert status.warnings == []


async def test_updates_and_other_kinds_get_no_warning(admit, scope):
    for of, old in ((("", "persistentvolumeclaims"), ONE), (("apps", "deployments"), None)):
        asking = scope(*of)
        await admit(warn_of_no_effect, ONE, scope=asking, old=old)
        assert asking.warnings == []
