"""DaemonSets: for those who have nodes, or controllers, of their own."""

import pytest

from vcsync.controlplane.admission.daemon_sets import daemons_have_nodes
from vcsync.controlplane.errors import StatusError

DAEMONS = ("apps", "daemonsets")
DAEMON_SET = {"metadata": {"name": "d"}}


async def test_a_tenant_with_virtual_nodes_is_told_what_to_do(asked, things):
    with pytest.raises(StatusError) as caught:
        await asked(daemons_have_nodes, DAEMON_SET, of=DAEMONS)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message.startswith('daemonsets.apps "d" is forbidden: a DaemonSet runs on every node')
    assert "'vcsync tenant set t --controllers external'" in caught.value.message


@pytest.mark.parametrize("data", [{"controllers": "external"}, {"controllers": "vcsync", "nodes": "own"}])
async def test_who_has_controllers_or_nodes_of_its_own_may(asked, things, data):
    things.add("", "configmaps", "t.controllers", "kube-system", data=data)
    assert await asked(daemons_have_nodes, DAEMON_SET, of=DAEMONS) == DAEMON_SET


async def test_the_operators_own_space_may(asked, scope):
    system = scope(*DAEMONS)
    system.tenant = "system"
    assert await asked(daemons_have_nodes, DAEMON_SET, scope=system) == DAEMON_SET


@pytest.mark.parametrize(("of", "old"), [(DAEMONS, DAEMON_SET), (("apps", "deployments"), None)])
async def test_those_that_stand_and_all_else_are_left_alone(asked, things, of, old):
    assert await asked(daemons_have_nodes, DAEMON_SET, of=of, old=old) == DAEMON_SET
