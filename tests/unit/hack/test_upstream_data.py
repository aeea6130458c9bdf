"""Objects of Kubernetes' test data, and the ways in which they are sent."""

import pytest
import yaml

from hack.parity import allowed
from hack.upstream_data import requests, sources
from hack.upstream_data.__main__ import KNOWN
from hack.upstream_data.sources import Document


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("kind: A\n---\nkind: B\n---\n", ["A", "B"]),
        ('{"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}, 1]}', ["A", "B"]),
        ("a: {{ template }}\n  b", []),
        ("- kind: A\n", []),
        ("kind: 5\n", []),
        ("", []),
    ],
)
def test_objects_are_documents_and_items_of_lists(text, kinds):
    assert [each["kind"] for each in sources.objects(text)] == kinds


def test_times_stay_texts():
    assert sources.objects("kind: A\nat: 2026-01-01T00:00:00Z\n")[0]["at"] == "2026-01-01T00:00:00Z"


@pytest.fixture
def cache(tmp_path):
    for module, folders in sources.FOLDERS.items():
        for folder in folders:
            (tmp_path / module / folder / "deep").mkdir(parents=True)
    return {module: tmp_path / module for module in sources.FOLDERS}


def test_files_are_found_in_all_folders_and_once_if_they_are_in_two_forms(cache):
    folder = cache["k8s.io/api"] / "testdata/HEAD"
    for name in ("a.json", "a.yaml", "deep/b.yml"):
        (folder / name).write_text('{"kind": "A"}')
    (folder / "a.pb").write_text("")
    assert [each.source for each in sources.documents(cache)] == [
        "api/testdata/HEAD/a.json#0",
        "api/testdata/HEAD/deep/b.yml#0",
    ]


def _document(version, kind, **metadata):
    return Document("m/f.yaml#0", {"apiVersion": version, "kind": kind, "metadata": metadata, "status": {}})


def _steps(document):
    found = requests.scenario(7, document, requests.kind_of(document))
    assert found["scenario"] == "0007-m-f-yaml-0"
    return {_what(each): each for each in found["steps"]}


def _what(step):
    return step["label"].removeprefix("m/f.yaml#0 ").partition(":")[0]


def test_kinds_that_are_not_served_are_left_out():
    assert requests.kind_of(_document("apps/v1beta1", "Deployment")) is None
    assert requests.kind_of(_document("apps/v1", "Deployment")).plural == "deployments"


def test_an_object_of_a_namespace_is_written_in_every_way():
    steps = _steps(
        _document("apps/v1", "Deployment", name="D", namespace="other", uid="u", labels={"a": "b"})
    )
    collection = "/apis/apps/v1/namespaces/{ns}/deployments"
    assert [verb + " " + step[verb] for step in steps.values() for verb in step if verb.isupper()] == [
        f"POST {collection}?dryRun=All&fieldValidation=Strict",
        f"POST {collection}?dryRun=All",
        f"POST {collection}?fieldManager=creator",
        f"GET {collection}?fieldSelector=metadata.name=d",
        f"PATCH {collection}/d",
        f"PATCH {collection}/d?fieldManager=applier",
        f"PATCH {collection}/d?fieldManager=applier&force=true",
        f"PUT {collection}/d",
        f"PUT {collection}/d/status",
        f"GET {collection}/d",
    ]
    assert steps["create"]["label"] == f"m/f.yaml#0 create: POST {collection}"
    assert steps["create"]["body"]["metadata"] == {"name": "d", "labels": {"a": "b"}}
    assert steps["update"]["body"]["metadata"]["labels"] == {"a": "b", "by": "update"}
    assert requests.LAST_APPLIED in steps["client-side apply"]["body"]["metadata"]["annotations"]


def test_an_object_of_all_namespaces_is_removed_before_and_after():
    steps = requests.scenario(
        1, document := _document("v1", "Namespace", name="N"), requests.kind_of(document)
    )["steps"]
    removal = ["delete", "free", "finalize"]
    labels = [_what(each) for each in steps]
    assert labels[2:5] == labels[-3:] == removal
    assert all(each["may_fail"] for each in steps if _what(each) in removal)
    assert steps[5]["body"]["metadata"]["name"] == "upstream-data-n"


def test_names_are_quoted_in_paths():
    steps = _steps(_document("v1", "ConfigMap", name="a {{ .index }}/b"))
    assert steps["get"]["GET"].endswith("/configmaps/a%20%7B%7B%20.index%20%7D%7D%2Fb")


def test_objects_that_change_the_server_are_not_stored():
    group = "admissionregistration.k8s.io/v1"
    steps = _steps(_document(group, "ValidatingWebhookConfiguration", name="a"))
    assert all("dryRun=All" in str(each) for each in steps.values())


def test_reviews_are_only_created():
    steps = _steps(_document("authorization.k8s.io/v1", "SubjectAccessReview", name="a"))
    assert list(steps) == ["strict dry run", "dry run"]


def test_known_differences_have_reasons():
    entries = yaml.safe_load(KNOWN.read_text())
    assert len(entries) == len(allowed.load(KNOWN))
    assert all(each["reason"].endswith(".") for each in entries)
