"""The order of the rows of `vcsync status` does not depend on the order of lists."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, TENANTS, VIRTUAL_CLUSTERS
from vcsync.cli.status import alarms, commands
from vcsync.kube.resources import EVENTS, Resource
from vcsync.objects.envelope import Envelope, parse


def envelope(name: str, namespace: str = "", uid: str = "", **fields: Any) -> Envelope:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid of {name}"}
    return parse(json.dumps({"metadata": metadata, **fields}).encode())


def placement(tenant: str, name: str) -> Envelope:
    owner = {"namespace": "vcsync", "name": f"vc-{tenant}", "uid": f"uid of vc-{tenant}"}
    spec = {"virtualCluster": owner, "tenant": tenant, "namespace": name, "namespaceUID": "u"}
    return envelope(name, f"root-{tenant}", spec=spec)


def warning(tenant: str, reason: str, last: str) -> Envelope:
    about = {"kind": "VirtualCluster", "name": tenant}
    return envelope(
        f"{tenant}.{reason}", "vcsync", involvedObject=about, reason=reason, message="m", lastTimestamp=last
    )


def tenant(name: str, reason: str) -> Envelope:
    ready = {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": NOW}
    return envelope(name, status={"conditions": [ready | {"message": f"why of {name}"}]})


NOW, BEFORE = "2026-01-02T03:04:05+00:00", "2026-01-02T03:02:36+00:00"
LISTED: dict[Resource, list[Envelope]] = {
    SUPER_CLUSTERS: [envelope(name, spec={"id": name}) for name in ("r1", "r2", "r10")],
    # The names of the VirtualClusters have a different order than the names of their tenants.
    VIRTUAL_CLUSTERS: [
        envelope("vc-b", "vcsync", spec={"tenant": "b"}),
        envelope("vc-c", "vcsync", uid="uid of vc-a", spec={"tenant": "a"}),
        envelope("vc-d", "vcsync", spec={}),
    ],
    NAMESPACE_PLACEMENTS: [placement("a", "web"), placement("b", "api"), placement("a", "api")],
    TENANTS: [tenant("b", "SetAside"), tenant("a", "SetAside"), tenant("c", "Suspended")],
    EVENTS: [warning("b", "Two", NOW), warning("a", "One", BEFORE), warning("a", "One", NOW)],
}
ROLES = {name: {"ready": True} for name in ("syncer r2", "nsscheduler", "syncer r1")}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `vcsync status` with three objects of each kind, listed in the given order."""

    def run(order: tuple[int, ...], *arguments: str) -> str:
        class Meta:
            async def list(self, resource: Resource, **_: Any) -> list[Envelope]:
                return [LISTED[resource][index] for index in order]

        @asynccontextmanager
        async def client(_: str | None) -> AsyncIterator[Meta]:
            yield Meta()

        async def roles(_: tuple[str, ...]) -> dict[str, dict[str, Any]]:
            names = list(ROLES)
            return {names[index]: ROLES[names[index]] for index in order}

        monkeypatch.setattr(commands, "meta_client", client)
        monkeypatch.setattr(commands, "roles_of", roles)
        monkeypatch.setattr(alarms, "age", lambda moment: moment)
        monkeypatch.setattr(alarms, "LATELY", timedelta.max)  # the warnings are of one fixed day
        result = CliRunner().invoke(commands.status, ["--endpoint", "x:1", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    return run


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
def test_rows_have_one_order_for_any_order_of_the_list(shown: Any, form: str) -> None:
    assert len({shown(order, "-o", form) for order in itertools.permutations(range(3))}) == 1


def test_rows_are_sorted_by_name_and_warnings_newest_first(shown: Any) -> None:
    document = json.loads(shown((2, 0, 1), "-o", "json"))
    assert [each["spec"].get("tenant") or each["name"] for each in document["tenants"]] == ["a", "b", "vc-d"]
    assert [(each["tenant"], each["namespace"]) for each in document["namespaces"]] == [
        ("a", "api"),
        ("a", "web"),
        ("b", "api"),
    ]
    warnings = [(each["tenant"], each["last"]) for each in document["warnings"]]
    assert warnings == [("a", NOW), ("b", NOW), ("a", BEFORE)]
    assert list(document["roles"]) == ["nsscheduler", "syncer r1", "syncer r2"]


def test_tenants_that_are_set_aside_are_shown_with_the_reason(shown: Any) -> None:
    lines = shown((0, 1, 2)).splitlines()
    phases = {line.split()[0]: line.split()[1] for line in lines if line.startswith(("a ", "b ", "vc-d "))}
    assert {"a ", "b "} <= {line[:2] for line in lines if "why of" in line}
    assert phases["vc-d"] == "Pending"
    assert any(line.split()[:2] == ["a", "SetAside"] for line in lines)
    document = json.loads(shown((0, 1, 2), "-o", "json"))
    assert [each["aside"] for each in document["tenants"]] == ["why of a", "why of b", ""]
