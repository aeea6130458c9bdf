"""The document at `/status` and its published schema."""

import json
from typing import Any

import aiohttp
import msgspec
import pytest
from test_status_server import BrokenRole, Role

from hack.generate import DOCS
from vcsync.status import StatusServer
from vcsync.status.document import ProcessStatus, schema

LEADER = {
    "ready": True,
    "reason": "leading",
    "role": "nsscheduler",
    "leader": True,
    "tenants": {"vcsync-1-acme": {"state": "Ready", "lastError": None}},
    "superClusters": {"r1": {"health": "Ready", "silentSeconds": 1.5, "capacity": {"cpu": "4"}}, "r2": {"problem": "no"}},
    "waiting": [{"tenant": "vcsync-1-acme", "namespace": "shop", "reason": "full"}],
    "lastErrors": [{"time": "t", "tenant": "", "item": "a/b", "error": "e", "attempts": 2, "reconcile": "x-1"}],
    "restarts": 0,
    "lastFailure": None,
    "queues": {"namespaces": 0},
}  # fmt: skip


async def answer() -> dict[str, Any]:
    class Leader(Role):
        def status(self) -> dict[str, Any]:
            return LEADER

    sources = {"syncer/r1": Role(), "broken": BrokenRole(), "nsscheduler": Leader()}
    async with (
        StatusServer("127.0.0.1:0", sources) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/status") as found,
    ):
        document: dict[str, Any] = await found.json()
    return document


async def test_the_answer_has_the_form_that_is_published() -> None:
    document = await answer()
    read = msgspec.convert(document, ProcessStatus)
    assert (read.api_version, read.kind) == ("status.tenancy.x-k8s.io/v1alpha1", "ProcessStatus")
    assert list(document) == list(schema()["$defs"]["ProcessStatus"]["properties"]), (
        "no field is without schema"
    )
    role = read.roles["nsscheduler"]
    assert (role.leader, role.restarts, role.last_failure) == (True, 0, None)
    assert read.roles["broken"].ready is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ready", "yes"), ("leader", 1), ("restarts", -1),
        ("superClusters", {"r1": {"health": 5}}), ("lastErrors", [{"time": "t"}]),
    ],
)  # fmt: skip
async def test_another_form_is_no_answer_of_this_version(field: str, value: object) -> None:
    document = await answer()
    document["roles"]["nsscheduler"] |= {field: value}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, ProcessStatus)


def test_the_published_schema_is_that_of_the_types() -> None:
    assert json.loads((DOCS / "reference/status.schema.json").read_text()) == json.loads(
        msgspec.json.encode(schema())
    )
