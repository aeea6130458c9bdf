"""DaemonSets, which need a tenant with its own nodes or controllers."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.daemon_sets import daemons_have_nodes

DAEMONS = ("apps", "daemonsets")
DAEMON_SET = {"metadata": {"name": "d"}}


async def test_daemon_sets_are_refused_with_a_remedy_if_all_nodes_are_virtual(admit, things):
    with pytest.raises(StatusError) as caught:
        await admit(daemons_have_nodes, DAEMON_SET, of=DAEMONS)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message.startswith('daemonsets.apps "d" is forbidden: a DaemonSet runs on every node')
    assert "'vcsync tenant set t --controllers external'" in caught.value.message


@pytest.mark.parametrize("data", [{"controllers": "external"}, {"controllers": "vcsync", "nodes": "own"}])
async def test_tenants_with_their_own_controllers_or_nodes_may_have_daemon_sets(admit, things, data):
    things.add("", "configmaps", "t.controllers", "kube-system", data=data)
    assert await admit(daemons_have_nodes, DAEMON_SET, of=DAEMONS) == DAEMON_SET


async def test_daemon_sets_of_the_system_tenant_are_admitted(admit, scope):
    system = scope(*DAEMONS)
    system.tenant = "system"
    assert await admit(daemons_have_nodes, DAEMON_SET, scope=system) == DAEMON_SET


@pytest.mark.parametrize(("of", "old"), [(DAEMONS, DAEMON_SET), (("apps", "deployments"), None)])
async def test_updates_and_other_kinds_are_admitted(admit, things, of, old):
    assert await admit(daemons_have_nodes, DAEMON_SET, of=of, old=old) == DAEMON_SET
