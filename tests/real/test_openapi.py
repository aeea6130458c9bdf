"""Both servers publish equal OpenAPI documents: that of version 2 and all of version 3."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hack.parity import sides
from hack.parity.ask import Side

JUDGED: frozenset[str] = frozenset()
"""Paths of what may differ, with the reason; nothing does."""
MOST_TOLD = 40
PUBLISHED_SECONDS = 60
GROUP = "openapi.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"apples.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "apples", "kind": "Apple"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "An apple.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "count": {"type": "integer", "minimum": 0, "default": 1},
                                    "sort": {"type": "string", "enum": ["red", "green"]},
                                    "weight": {"x-kubernetes-int-or-string": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """A real server and ours, each with the same CustomResourceDefinition."""
    folder = tmp_path_factory.mktemp("openapi")
    with ExitStack() as stack:
        real, _ = stack.enter_context(sides.real(folder / "real"))
        ours = stack.enter_context(sides.embedded(folder / "ours"))
        for side in (real, ours):
            ask(side, CRDS, DEFINITION)
        for side in (real, ours):
            published(side)
        yield real, ours


def ask(side: Side, path: str, body: Any = None) -> Any:
    """GET or POST."""
    admin = side.users["admin"]
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if admin.token:
        headers["Authorization"] = f"Bearer {admin.token}"
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{side.url}{path}", sent, headers)
    with urllib.request.urlopen(request, context=admin.context, timeout=60) as answer:
        return json.load(answer)


def published(side: Side) -> None:
    """Wait until a server's documents contain the custom resource."""
    deadline = time.monotonic() + PUBLISHED_SECONDS
    while True:
        in_2 = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/apples" in ask(side, "/openapi/v2")["paths"]
        in_3 = {f"apis/{GROUP}", f"apis/{GROUP}/v1"} & ask(side, "/openapi/v3")["paths"].keys()
        if in_2 and f"apis/{GROUP}/v1" in in_3:
            return
        assert time.monotonic() < deadline, f"{side.name} does not publish the custom resource"
        time.sleep(0.5)


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each difference between two documents, including the order of lists."""
    if path in JUDGED:
        return
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            here = f"{path} > {key}"
            if key not in ours or key not in real:
                yield f"{here}: only {'ours' if key in ours else 'real'}: {str(ours.get(key, real.get(key)))[:300]}"
            else:
                yield from differences(real[key], ours[key], here)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for number, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from differences(one, other, f"{path} > {number}")
    elif real != ours:
        yield f"{path}: real {str(real)[:300]!r}, ours {str(ours)[:300]!r}"


def require_same(real: Any, ours: Any) -> None:
    found = list(differences(real, ours))
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:MOST_TOLD])


def test_the_documents_of_version_2_are_equal(both: tuple[Side, Side]) -> None:
    real, ours = (ask(side, "/openapi/v2") for side in both)
    assert len(real["paths"]) > 400
    require_same(real, ours)


def test_all_documents_of_version_3_are_equal(both: tuple[Side, Side]) -> None:
    indexes = [ask(side, "/openapi/v3")["paths"] for side in both]
    assert indexes[0].keys() == indexes[1].keys()
    assert len(indexes[0]) > 40
    for path in indexes[0]:
        real, ours = (
            ask(side, index[path]["serverRelativeURL"].removeprefix(prefix(side)))
            for side, index in zip(both, indexes, strict=True)
        )
        require_same({path: real}, {path: ours})


def prefix(side: Side) -> str:
    """Return the prefix of every request's path."""
    return "/" + side.url.partition("://")[2].partition("/")[2] if side.url.count("/") > 2 else ""
