"""Who may make an object another's dependent."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.controlplane.admission.owner_references import OwnerReferences
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Attributes, Decision
from vcsync.controlplane.rest.scope import Admission

OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1"}
BLOCKING = {**OWNER, "blockOwnerDeletion": True}
DEFINITION = {
    "spec": {
        "group": "example.org",
        "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": False}],
    }
}


class Rights:
    """Lets a caller do what is listed: `verb group/resource[/subresource] namespace/name`."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = set(allowed)
        self.asked: list[str] = []

    async def decide(self, caller: Any, asked: Attributes) -> Decision:
        path = "/".join(filter(None, (asked.group, asked.resource, asked.subresource)))
        self.asked.append(f"{asked.verb} {path} {asked.namespace}/{asked.name}")
        return Decision(self.asked[-1] in self._allowed, "because")


class Definitions:
    async def all(self, *_: str) -> list[Any]:
        return [DEFINITION]


def admission(new: list[Any], old: list[Any] | None = None, subresource: str = "") -> Admission:
    resource = SimpleNamespace(group="", version="v1", plural="pods")
    scope = SimpleNamespace(
        tenant="acme",
        kind=SimpleNamespace(resource=resource),
        namespace="a",
        name="p",
        subresource=subresource,
        caller=object(),
    )
    before = None if old is None else {"metadata": {"ownerReferences": old}}
    operation: Any = "CREATE" if old is None else "UPDATE"
    return Admission(scope, operation, "p", {"metadata": {"ownerReferences": new}}, before, False)  # type: ignore[arg-type]


async def admitted(rights: Rights, asked: Admission) -> str:
    """Return why it is refused; empty: it is not."""
    try:
        await OwnerReferences(rights.decide)(asked, Definitions())  # type: ignore[arg-type]
    except StatusError as error:
        return error.message if error.code == 403 else ""
    return ""


SET = "update apps/deployments/finalizers a/web"
DELETE = "delete pods a/p"


@pytest.mark.parametrize(
    ("rights", "asked", "why"),
    [
        (Rights(), admission([]), ""),
        (Rights(), admission([OWNER]), ""),
        (Rights(), admission([BLOCKING], [BLOCKING]), ""),
        (Rights(), admission([OWNER], []), "you can't delete: because"),
        (Rights(), admission([], [OWNER]), "you can't delete: because"),
        (Rights(DELETE), admission([OWNER], []), ""),
        (Rights(), admission([BLOCKING]), "you can't set finalizers on: because"),
        (Rights(SET), admission([BLOCKING]), ""),
        (Rights("update */*/finalizers /*"), admission([BLOCKING]), ""),
        (Rights(DELETE), admission([BLOCKING], [OWNER]), "you can't set finalizers on"),
        (Rights(DELETE), admission([BLOCKING, {**OWNER, "uid": "u2"}], [BLOCKING]), ""),
        (Rights(), admission([OWNER], [], subresource="status"), ""),
        (
            Rights("update example.org/things/finalizers /web"),
            admission([{**BLOCKING, "apiVersion": "example.org/v1", "kind": "Thing"}]),
            "",
        ),
        (
            Rights(),
            admission([{**BLOCKING, "apiVersion": "example.org/v2", "kind": "Thing"}]),
            'cannot find RESTMapping for APIVersion example.org/v2 Kind Thing: no matches for kind "Thing"',
        ),
    ],
)
async def test_owners_want_rights(rights: Rights, asked: Admission, why: str) -> None:
    told = await admitted(rights, asked)
    assert why in told if why else not told


async def test_nothing_is_asked_where_owners_stay() -> None:
    rights = Rights()
    await admitted(rights, admission([BLOCKING], [BLOCKING]))
    assert rights.asked == []
