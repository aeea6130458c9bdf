"""Permissions that owner references need."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.owner_references import OwnerReferences
from vcsync.apiserver.request.caller import Attributes, Decision
from vcsync.apiserver.request.scope import Admission

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
    """Authorizes the listed requests: `verb group/resource[/subresource] namespace/name`."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = set(allowed)
        self.checks: list[str] = []

    async def decide(self, caller: Any, attributes: Attributes) -> Decision:
        path = "/".join(filter(None, (attributes.group, attributes.resource, attributes.subresource)))
        self.checks.append(f"{attributes.verb} {path} {attributes.namespace}/{attributes.name}")
        return Decision(self.checks[-1] in self._allowed, "because")


class Definitions:
    def __init__(self) -> None:
        self.read = 0

    async def all(self, *_: str) -> list[Any]:
        self.read += 1
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


async def admitted(rights: Rights, admission: Admission) -> str:
    """Return why the write is refused, or an empty text."""
    try:
        await OwnerReferences(rights.decide)(admission, Definitions())  # type: ignore[arg-type]
    except StatusError as error:
        return error.message if error.code == 403 else ""
    return ""


SET = "update apps/deployments/finalizers a/web"
DELETE = "delete pods a/p"


@pytest.mark.parametrize(
    ("rights", "admission", "why"),
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
async def test_owner_references_need_permission(rights: Rights, admission: Admission, why: str) -> None:
    refusal = await admitted(rights, admission)
    assert why in refusal if why else not refusal


async def test_owner_references_of_subresources_need_permission_to_delete_them() -> None:
    rights = Rights("delete pods/ephemeralcontainers a/p")
    assert not await admitted(rights, admission([OWNER], [], subresource="ephemeralcontainers"))


async def test_unchanged_owner_references_are_not_authorized() -> None:
    rights = Rights()
    await admitted(rights, admission([BLOCKING], [BLOCKING]))
    assert rights.checks == []


async def test_thousands_of_owners_read_the_definitions_once() -> None:
    """An object has room for 15,000 owners, and a tenant for 32 MiB of definitions."""
    owners = [
        {
            **BLOCKING,
            "apiVersion": "example.org/v1",
            "kind": "Thing",
            "name": f"t{number}",
            "uid": f"u{number}",
        }
        for number in range(100)
    ]
    rights = Rights(*(f"update example.org/things/finalizers /t{number}" for number in range(100)))
    definitions: Any = Definitions()
    await OwnerReferences(rights.decide)(admission(owners), definitions)
    assert definitions.read == 1
