"""What does nothing where a tenant's Pods run is admitted, with a warning that says so."""

import pytest

from vcsync.api import names
from vcsync.controlplane.admission.without_effect import CORDONED, WITHOUT_EFFECT, warn_of_no_effect

ONE = {"metadata": {"name": "one"}}


def node(*, cordoned: bool, virtual: bool = True):
    labels = {names.VIRTUAL_NODE: "true"} if virtual else {}
    return {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": True} if cordoned else {}}


@pytest.mark.parametrize("of", WITHOUT_EFFECT)
async def test_a_tenant_with_virtual_nodes_is_warned(asked, scope, of):
    asking = scope(*of)
    assert await asked(warn_of_no_effect, ONE, scope=asking) == ONE
    assert asking.warnings == [WITHOUT_EFFECT[of]]


@pytest.mark.parametrize("data", [{"controllers": "external"}, {"controllers": "vcsync", "nodes": "own"}])
async def test_who_has_controllers_or_nodes_of_its_own_is_not(asked, things, scope, data):
    things.add("", "configmaps", "t.controllers", "kube-system", data=data)
    asking = scope("networking.k8s.io", "ingresses")
    await asked(warn_of_no_effect, ONE, scope=asking)
    assert asking.warnings == []


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        (node(cordoned=False), node(cordoned=True), True),
        (node(cordoned=True), node(cordoned=True), False),
        (node(cordoned=True), node(cordoned=False), False),
        (node(cordoned=False, virtual=False), node(cordoned=True, virtual=False), False),
    ],
)
async def test_to_cordon_a_virtual_node_is_warned_of_once(asked, scope, old, new, warned):
    asking = scope("", "nodes")
    await asked(warn_of_no_effect, new, scope=asking, old=old)
    assert asking.warnings == ([CORDONED] if warned else [])


async def test_updates_and_all_else_are_left_alone(asked, scope):
    for of, old in ((("networking.k8s.io", "ingresses"), ONE), (("apps", "deployments"), None)):
        asking = scope(*of)
        await asked(warn_of_no_effect, ONE, scope=asking, old=old)
        assert asking.warnings == []
