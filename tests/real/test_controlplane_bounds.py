"""Costs to others of one tenant's stored objects and reads, as its users meet the limits with real kubectl."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from tests.real.kubectl_kit import Kubectl
from tests.real.waiting import eventually

REPEATED = f"[{','.join('*' * 32)}]"
COLUMN = f".spec{REPEATED}{REPEATED}[?(@.x)]"


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder: Path = tmp_path_factory.mktemp("bounds")
    with ControlPlane(folder) as plane:
        yield Kubectl(plane.create("acme"))


def definition() -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    columns = [
        {"name": "Cost", "type": "string", "jsonPath": COLUMN},
        {"name": "First", "type": "string", "jsonPath": ".spec.first"},
    ]
    version = {"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": columns}
    names = {"plural": "wides", "singular": "wide", "kind": "Wide"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wides.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_kubectl_shows_that_a_column_looks_at_too_many_values(acme: Kubectl) -> None:
    acme("apply", given=definition())
    eventually(lambda: acme.run("get", "wides").returncode == 0)
    for name, numbers in (("long", 400), ("short", 0)):
        spec = {"first": "one", "a": {"l": [0] * numbers}}
        given = {"apiVersion": "x.example.com/v1", "kind": "Wide", "metadata": {"name": name}, "spec": spec}
        acme("apply", given=given)
    rows = [line.split(maxsplit=1) for line in acme("get", "wides", "--no-headers").splitlines()]
    assert [name for name, _ in rows] == ["long", "short"]
    assert rows[0][1].count("<too many values>") == 2
    assert rows[1][1].split() == ["one"]


def test_kubectl_cannot_make_more_limitranges_in_a_namespace_than_are_evaluated_quickly(
    acme: Kubectl,
) -> None:
    limit = {"type": "Container", "max": {"cpu": "2"}}
    items = [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": f"l{at:03}"},
            "spec": {"limits": [limit]},
        }
        for at in range(101)
    ]
    acme("create", given={"apiVersion": "v1", "kind": "List", "items": items[:100]})
    said = acme.refused("create", given=items[100])
    assert "there are too many limitranges in the namespace: 100 of 100 objects are used" in said
    acme("delete", "limitrange", "l000")
    acme("create", given=items[100])


def test_kubectl_cannot_send_a_long_review(acme: Kubectl) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "x" * 70_000}},
    }
    said = acme.refused("create", given=review)
    assert "the body of a request for selfsubjectaccessreviews has" in said
    assert "65536 are allowed" in said
