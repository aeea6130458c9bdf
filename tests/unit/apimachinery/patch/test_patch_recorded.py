"""Replays recorded requests and compares the results with those of kube-apiserver 1.36.

Each line of recorded.jsonl is one request on one object: `live` is the object before it (null: none), `entries` the
managedFields afterwards, `result` the object afterwards, `status` the refusal.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import apply, documents, managed, resets
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.node import Schema

CASES = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]
BUILTIN = {
    "ConfigMap": ("", "v1", "configmaps"),
    "Deployment": ("apps", "v1", "deployments"),
    "Pod": ("", "v1", "pods"),
    "Service": ("", "v1", "services"),
}
PATCHES = {"json": documents.JSON, "merge": documents.MERGE, "smp": documents.STRATEGIC}

TEXT = Schema("string")
ITEM = Schema(
    "object",
    required=("a",),
    properties={
        "a": TEXT,
        "b": Schema("string", default="bb"),
        "v": TEXT,
        "n": Schema("array", items=TEXT),
    },
)
PAIR = Schema("object", properties={"x": TEXT, "y": TEXT})
CUSTOM = Schema(
    "object",
    properties={
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": builtin.definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        "status": Schema("object", properties={"s": TEXT}),
        "spec": Schema(
            "object",
            properties={
                "set": Schema("array", items=TEXT, list_type="set"),
                "m": Schema("array", items=ITEM, list_type="map", map_keys=("a", "b")),
                "at": Schema("array", items=TEXT),
                "am": Schema("map", values=TEXT, atomic=True),
                "gm": Schema("map", values=PAIR),
                "free": Schema("object", preserve_unknown=True),
                "any": Schema("any", preserve_unknown=True),
                "ios": Schema("int-or-string"),
                "num": Schema("integer"),
                "f": Schema("number"),
                "nul": Schema("string", nullable=True),
                "obj": Schema("object", properties={"p": TEXT, "q": TEXT}),
            },
        ),
    },
)


def tracking(case: dict[str, Any]) -> Tracking:
    kind = case["kind"]
    if kind == "Test":
        version = (case.get("applied") or case["new"])["apiVersion"]
        reset = resets.of_custom(True, case["sub"])
        served = frozenset({"d.example.com/v1", "d.example.com/v2"})
        return Tracking(CUSTOM, version, "Test", case["sub"], reset, versions=served)
    group, version, plural = BUILTIN[kind]
    schema = builtin.schema(group, version, kind)
    assert schema is not None
    return Tracking(
        schema,
        f"{group}/{version}" if group else version,
        kind,
        reset=all_kinds.reset(group, plural),
        empty=managed.empty_object(group, version, kind),
    )


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(case, id=f"{case['what']}-{case['kind']}-{number}") for number, case in enumerate(cases)
    ]


def settled(status: dict[str, Any]) -> dict[str, Any]:
    """Sort conflicting managers; their order is random in kube-apiserver."""
    causes = sorted(
        status.get("details", {}).get("causes", ()), key=lambda each: (each["message"], each["field"])
    )
    head, _, managers = status["message"].partition(": ")
    lines = sorted(managers.split("\n")) if "conflicts: " in status["message"] else [managers]
    return {**status, "message": [head, *lines], "details": causes}


@pytest.mark.parametrize("case", named([case for case in CASES if case["what"] == "apply"]))
def test_applies_like_the_real_server(case: dict[str, Any]) -> None:
    def run() -> dict[str, Any]:
        return apply.apply(
            case["live"],
            case["applied"],
            manager=case["manager"],
            force=case["force"],
            now=case["now"],
            tracking=tracking(case),
        )

    if "status" in case:
        with pytest.raises(StatusError) as refusal:
            run()
        assert settled(refusal.value.status()) == settled(case["status"])
    else:
        assert run()["metadata"].get("managedFields") == case["entries"]


@pytest.mark.parametrize("case", named([case for case in CASES if case["what"] == "update"]))
def test_tracks_updates_like_the_real_server(case: dict[str, Any]) -> None:
    entries = managed.update(
        case["live"], case["new"], manager=case["manager"], now=case["now"], tracking=tracking(case)
    )
    assert entries == case["entries"]


@pytest.mark.parametrize(
    "case", named([case for case in CASES if case.get("entries") and case["kind"] != "Test"])
)
def test_writes_fields_in_the_order_of_the_real_server(case: dict[str, Any]) -> None:
    if case["what"] == "update":
        entries = managed.update(
            case["live"], case["new"], manager=case["manager"], now=case["now"], tracking=tracking(case)
        )
    else:
        made = apply.apply(
            case["live"],
            case["applied"],
            manager=case["manager"],
            force=True,
            now=case["now"],
            tracking=tracking(case),
        )
        entries = made["metadata"]["managedFields"]
    assert json.dumps(entries) == json.dumps(case["entries"])


@pytest.mark.parametrize("case", named([case for case in CASES if case["what"] in PATCHES]))
def test_patches_like_the_real_server(case: dict[str, Any]) -> None:
    group, version, _ = BUILTIN[case["kind"]]
    schema = builtin.schema(group, version, case["kind"])
    body = json.dumps(case["patch"]).encode()
    before = json.dumps(case["live"])
    if "status" in case:
        with pytest.raises(StatusError) as refusal:
            documents.apply_patch(PATCHES[case["what"]], case["live"], body, schema)
        assert refusal.value.status() == case["status"]
    else:
        assert schema is not None
        changed = documents.apply_patch(PATCHES[case["what"]], case["live"], body, schema)
        assert walk.normalize(changed, schema) == case["result"]
    assert json.dumps(case["live"]) == before, "the live object is not touched"
