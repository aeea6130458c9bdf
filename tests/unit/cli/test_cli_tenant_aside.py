"""Commands name a tenant that is set aside, with the remedy."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from click.testing import CliRunner
from memory_cluster import MemoryCluster

from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.cli.command.errors import explain_error
from vcsync.cli.explain import commands as explain
from vcsync.cli.tenant import commands as tenants
from vcsync.cli.tenant.aside import sentences, set_aside
from vcsync.kube.client import Client
from vcsync.kube.errors import api_error

TOLD = "its control plane is set aside: WHY. Remove the cause, and then run 'vcsync tenant release acme'"


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    """Return a meta cluster with one tenant that is set aside and another one."""
    cluster = MemoryCluster("meta")
    for name, reason in (("acme", "SetAside"), ("other", "Suspended")):
        condition = {"type": "Ready", "status": "False", "reason": reason, "message": TOLD}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        cluster.put(TENANTS, name, status={"conditions": [condition]})
        status = {"phase": "Running", "clusterNamespace": f"root-{name}"}
        cluster.put(VIRTUAL_CLUSTERS, name, "vcsync", spec={"tenant": name}, status=status)

    @asynccontextmanager
    async def client(_: str | None) -> AsyncIterator[MemoryCluster]:
        yield cluster

    for each in (tenants, explain):
        monkeypatch.setattr(each, "meta_client", client)
    return cluster


def test_the_list_of_tenants_names_it_with_the_remedy(meta: MemoryCluster) -> None:
    assert meta.objects
    shown = CliRunner().invoke(tenants.list_, [])
    rows = {line.split()[0]: line.split()[1] for line in shown.stdout.splitlines()}
    assert (rows["acme"], rows["other"]) == ("SetAside", "Running")
    assert shown.stderr == f"tenant acme: {TOLD}\n"
    wide = CliRunner().invoke(tenants.list_, ["-o", "wide"])
    assert (wide.stdout.count(TOLD), wide.stderr) == (1, "")
    plain = json.loads(CliRunner().invoke(tenants.list_, ["-o", "json"]).stdout)
    assert [each["aside"] for each in plain] == [TOLD, ""]


@pytest.mark.parametrize(("tenant", "told"), [("acme", True), ("other", False)])
def test_the_explanation_of_a_namespace_names_it(
    meta: MemoryCluster, monkeypatch: pytest.MonkeyPatch, tenant: str, told: bool
) -> None:
    assert meta.objects

    async def found(*_: Any) -> object:
        return object()

    monkeypatch.setattr(explain, "_tenant_object", found)
    shown = CliRunner().invoke(explain.namespace, [f"{tenant}/default"])
    assert shown.exit_code == 0, shown.output
    assert (f"SetAside: {TOLD}." in shown.output) is told


@pytest.mark.parametrize(("command", "target"), [("namespace", "acme/default"), ("pod", "acme/default/web")])
def test_an_explanation_that_needs_its_control_plane_repeats_its_refusal(
    meta: MemoryCluster, monkeypatch: pytest.MonkeyPatch, command: str, target: str
) -> None:
    assert meta.objects

    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable"}
    body = json.dumps(status | {"code": 503, "message": f"tenant acme is set aside: {TOLD}"}).encode()

    async def refuse(*_: Any) -> object:
        raise api_error(503, body, endpoint="tenant acme")

    monkeypatch.setattr(explain, "_tenant_object", refuse)
    shown = CliRunner().invoke(explain.explain, [command, target])
    assert shown.exception is not None
    explanation = explain_error(shown.exception)
    assert explanation is not None
    assert f"tenant acme is set aside: {TOLD}" in explanation[0]


@pytest.mark.parametrize("code", [403, 404])
async def test_a_meta_cluster_that_shows_no_tenants_has_none_set_aside(
    meta: MemoryCluster, code: int
) -> None:
    def refuse(_verb: str, plural: str, _name: str) -> None:
        if plural == TENANTS.plural:
            raise api_error(code, b"{}", endpoint="meta")

    client = cast("Client", meta)
    assert [*await set_aside(client)] == ["acme"]
    meta.before = refuse
    assert await set_aside(client) == {}
    assert await sentences(client, "acme") == []
