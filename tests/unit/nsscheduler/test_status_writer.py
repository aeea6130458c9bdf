"""The status of VirtualClusters reports troubles of their tenants, written once for each change."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from vcsync.api import names
from vcsync.api.objects import SuperCluster
from vcsync.api.specs import SuperClusterSpec, SuperClusterStatus, Trouble
from vcsync.kube.cache import Cache
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound, Status, Unreachable
from vcsync.nsscheduler.status_writer import StatusWriter
from vcsync.objects.envelope import Envelope, parse
from vcsync.tenancy.terms import TermLease


class Stage:
    """A meta cluster with two tenants, and one syncer that reports."""

    def __init__(self, *, still_held: bool = True) -> None:
        self.cache = Cache()
        self.bodies: dict[str, dict[str, Any]] = {}
        self.patches: list[dict[str, Any]] = []
        self.error: KubeError | None = None
        self.reports: dict[str, tuple[Trouble, ...]] = {}
        self.found: dict[str, str] = {}
        for name in ("acme", "umbrella"):
            self.put(name)
        reflector: Any = SimpleNamespace(cache=self.cache, observe=self.cache.observe)
        self.teller = StatusWriter(
            self,  # type: ignore[arg-type]
            reflector,
            supers=self.supers,
            own=tuple,
            found=lambda key: self.found.get(key, ""),
            lease=TermLease("term", lambda: still_held),
        )

    def supers(self) -> list[SuperCluster]:
        return [
            SuperCluster(
                name="r1", spec=SuperClusterSpec(id="r1"), status=SuperClusterStatus(reports=self.reports)
            )
        ]

    def put(self, name: str) -> Envelope:
        body = self.bodies.setdefault(
            name,
            {
                "metadata": {"name": name, "namespace": "vcsync", "uid": name, "resourceVersion": "0"},
                "status": {"phase": "Running", "clusterNamespace": f"root-{name}"},
            },
        )
        body["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 1)
        found = parse(json.dumps(body).encode())
        self.cache.observe(found)
        return found

    async def patch(
        self, _resource: object, name: str, patch: dict[str, Any], _namespace: str, *, subresource: str
    ) -> Envelope:
        assert subresource == "status"
        assert patch["metadata"] == {"resourceVersion": self.bodies[name]["metadata"]["resourceVersion"]}
        if self.error is not None:
            raise self.error
        self.patches.append(patch["status"])
        self.bodies[name]["status"] |= patch["status"]
        return self.put(name)

    def braked(self, *tenants: str) -> None:
        self.reports = {
            "1/1": tuple(
                Trouble(tenant=f"root-{name}", type="Braked", message="25 of 25") for name in tenants
            )
        }

    def conditions(self, name: str) -> list[tuple[str, str]]:
        conditions = self.bodies[name]["status"].get("conditions", [])
        return [(each["type"], each["status"]) for each in conditions]


async def test_a_report_of_a_syncer_becomes_a_condition_and_ends_it() -> None:
    stage = Stage()
    await stage.teller.look()
    assert stage.patches == []
    stage.braked("acme")
    for _ in range(3):
        await stage.teller.look()
    assert (stage.conditions("acme"), stage.conditions("umbrella")) == ([("Braked", "True")], [])
    stage.braked()
    for _ in range(3):
        await stage.teller.look()
    assert stage.conditions("acme") == [("Braked", "False")]
    assert len(stage.patches) == 2


@pytest.mark.parametrize(
    "error",
    [
        Conflict(Status(409)),
        NotFound(Status(404)),
        Forbidden(Status(403)),
        Unreachable("cut", endpoint="meta"),
    ],
)
async def test_a_failed_write_is_repeated_by_a_later_comparison(error: KubeError) -> None:
    stage = Stage()
    stage.braked("acme", "umbrella", "unknown")
    stage.error = error
    await stage.teller.look()
    stage.error = None
    await stage.teller.look()
    assert (stage.conditions("acme"), stage.conditions("umbrella")) == (
        [("Braked", "True")],
        [("Braked", "True")],
    )


async def test_nothing_is_written_without_the_lease() -> None:
    stage = Stage(still_held=False)
    stage.braked("acme")
    await stage.teller.look()
    assert stage.patches == []


async def test_an_unreadable_object_does_not_affect_others() -> None:
    stage = Stage()
    stage.bodies["acme"]["spec"] = {"weight": "heavy"}
    stage.put("acme")
    stage.braked("acme", "umbrella")
    await stage.teller.look()
    assert stage.conditions("umbrella") == [("Braked", "True")]


async def test_the_control_plane_that_answers_first_is_recorded_once() -> None:
    stage = Stage()
    stage.found = {"root-acme": "u1"}
    await stage.teller.look()
    stage.found = {"root-acme": "u2"}
    await stage.teller.look()
    assert stage.patches == [{"controlPlaneUID": "u1"}]


async def test_a_uid_recorded_by_an_operator_is_kept() -> None:
    stage = Stage()
    stage.bodies["acme"]["metadata"]["annotations"] = {names.CONTROL_PLANE_UID: "u1"}
    stage.put("acme")
    stage.found = {"root-acme": "u1"}
    await stage.teller.look()
    assert stage.patches == []


@pytest.mark.parametrize("looks", [1, 3])
async def test_no_two_tenants_have_one_control_plane(looks: int) -> None:
    """Whoever has an external one may give it any UID: that of another tenant's stands for the other."""
    stage = Stage()
    stage.found = {"root-acme": "u1", "root-umbrella": "u1"}
    for _ in range(looks):
        await stage.teller.look()
    assert stage.patches == [{"controlPlaneUID": "u1"}]


async def test_a_uid_and_a_condition_are_one_write() -> None:
    stage = Stage()
    stage.found = {"root-acme": "u1"}
    stage.braked("acme")
    await stage.teller.look()
    assert [sorted(patch) for patch in stage.patches] == [["conditions", "controlPlaneUID"]]


async def test_forbidden_writes_are_logged_once_with_the_remedy() -> None:
    stage = Stage()
    stage.braked("acme", "umbrella")
    stage.error = Forbidden(Status(403))
    with capture_logs() as logged:
        await stage.teller.look()
        await stage.teller.look()
    [entry] = logged
    assert entry["log_level"] == "warning"
    assert "run 'vcsync install' again" in entry["event"]


async def test_a_claim_of_another_tenants_control_plane_is_logged_once() -> None:
    stage = Stage()
    stage.found = {"root-acme": "u1", "root-umbrella": "u1"}
    with capture_logs() as logged:
        for _ in range(3):
            await stage.teller.look()
    assert logged == [
        {
            "event": "control plane is another tenant's; its UID is not recorded",
            "tenant": "root-umbrella",
            "other": "root-acme",
            "log_level": "warning",
        }
    ]
