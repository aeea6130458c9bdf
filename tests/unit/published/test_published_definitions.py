"""Published CustomResourceDefinitions: which may reach tenants, which one counts, and whose a tenant's definition is."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.api.specs import MAX_DEFINITIONS, PublishedDefinition
from vcsync.apimachinery.schema import builtin
from vcsync.objects.envelope import Envelope, parse
from vcsync.published import definitions
from vcsync.published.definitions import (
    APPROVED,
    BUILT_IN_GROUPS,
    MAX_BYTES,
    Chosen,
    NotPublished,
    check,
    chosen,
    definition_of,
    differences,
    mark,
    missing_versions,
    new,
    offer,
    restored,
    stored,
    written,
)
from vcsync.scheduling.snapshot import Health, SuperView

SNAPSHOTS = "snapshot.storage.k8s.io"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}


def operators(
    group: str = "example.com", plural: str = "widgets", *, public: bool = True, **fields: Any
) -> dict[str, Any]:
    """Return a definition in a super cluster."""
    labels = {"vendor": "operator"} | ({names.SUPER_PUBLIC: names.TRUE} if public else {})
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", **fields.pop("annotations", {})}
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": group,
        "names": {"plural": plural, "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        "conversion": {"strategy": "None"},
        **fields.pop("spec", {}),
    }
    metadata = {"name": f"{plural}.{group}", "labels": labels, "annotations": annotations, "generation": 1}
    return {"metadata": metadata, "spec": spec, "status": fields.pop("status", ESTABLISHED)}


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def view(super_id: str, **digests: str) -> SuperView:
    found = tuple(PublishedDefinition(name=name, digest=digest) for name, digest in digests.items())
    return SuperView(super_id, Health.READY, {}, custom_resource_definitions=found)


def test_only_the_spec_and_the_approval_go_along() -> None:
    url = "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
    found = definition_of(envelope(operators(SNAPSHOTS, annotations={APPROVED: url})))
    body = json.loads(found.text)
    assert body["metadata"] == {"name": f"widgets.{SNAPSHOTS}", "annotations": {APPROVED: url}}
    assert set(body) == {"metadata", "spec"}
    assert body["spec"]["versions"][0]["name"] == "v1"


@pytest.mark.parametrize(
    ("made", "field"),
    [
        ({"group": "tenancy.x-k8s.io"}, "spec.group"),
        ({"group": "transparency.tenancy.x-k8s.io"}, "spec.group"),
        ({"group": "apps"}, "spec.group"),
        ({"group": "networking.k8s.io", "annotations": {APPROVED: "https://x.example/1"}}, "spec.group"),
        ({"group": SNAPSHOTS}, "metadata.annotations"),
        ({"group": "example.kubernetes.io"}, "metadata.annotations"),
        ({"status": {}}, "status"),
        ({"status": {"conditions": [{"type": "Established", "status": "False"}]}}, "status"),
        (
            {
                "spec": {
                    "conversion": {
                        "strategy": "Webhook",
                        "webhook": {
                            "clientConfig": {"url": "https://operators.example", "caBundle": "c2VjcmV0"}
                        },
                    }
                }
            },
            "spec.conversion.strategy",
        ),
        ({"spec": {"versions": [{"name": "v1", "schema": "x" * MAX_BYTES}]}}, "spec"),
    ],
)
def test_what_tenants_must_not_get_is_refused_with_the_field(made: dict[str, Any], field: str) -> None:
    with pytest.raises(NotPublished) as refused:
        definition_of(envelope(operators(**made)))
    assert str(refused.value).startswith(f"{field}: ")
    assert "operators.example" not in str(refused.value)


def test_similar_groups_are_allowed() -> None:
    for group in ("nottenancy.x-k8s.io", "example.com", "gateway.example.com"):
        check(operators(group))


def test_groups_of_control_planes_are_known() -> None:
    assert {each.group for each in builtin.resources()} <= BUILT_IN_GROUPS
    assert SNAPSHOTS not in BUILT_IN_GROUPS
    assert "gateway.networking.k8s.io" not in BUILT_IN_GROUPS


def test_settings_of_a_webhook_beside_another_strategy_do_not_go_along() -> None:
    conversion = {"strategy": "None", "webhook": {"clientConfig": {"caBundle": "c2VjcmV0"}}}
    found = definition_of(envelope(operators(spec={"conversion": conversion})))
    assert json.loads(found.text)["spec"]["conversion"] == {"strategy": "None"}


def test_an_offer_has_the_definitions_with_the_label_and_reasons_for_the_others() -> None:
    objects = [operators(plural=f"kind{number:02}s") for number in range(MAX_DEFINITIONS + 1)]
    objects += [operators(plural="private", public=False), operators("apps", plural="apples")]
    found = offer(envelope(each) for each in objects)
    assert list(found.definitions) == [f"kind{number:02}s.example.com" for number in range(MAX_DEFINITIONS)]
    assert set(found.refused) == {f"kind{MAX_DEFINITIONS}s.example.com", "apples.apps"}
    assert [each.name for each in found.described()] == list(found.definitions)


@given(st.randoms(use_true_random=False))
def test_the_digest_depends_on_the_content_only(order: random.Random) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    body = operators()
    assert definition_of(envelope(shuffled(body))) == definition_of(envelope(body))
    assert definition_of(envelope(operators(spec={"scope": "Cluster"}))) != definition_of(envelope(body))


# --- the meta cluster


def kept(body: dict[str, Any]) -> tuple[Envelope, Chosen]:
    """Return the ConfigMap of a definition, and the definition as chosen for tenants."""
    found = definition_of(envelope(body))
    return envelope(stored("r1", found)), Chosen(found.name, found.digest, "r1", "r1")


def test_a_stored_definition_is_read_again() -> None:
    found, wanted = kept(operators())
    assert found.name == definitions.stored_name("r1", wanted.name)
    assert found.labels == {names.DEFINITION_OF: "r1"}
    assert restored(found, wanted)["spec"] == operators()["spec"]


def test_a_config_map_with_another_content_counts_as_unread() -> None:
    found, wanted = kept(operators())
    other, another = kept(operators(plural="gadgets"))
    for each, expected in (
        (other, wanted),
        (found, another),
        (envelope({"metadata": {"name": "x"}}), wanted),
        (envelope({"metadata": {"name": "x"}, "binaryData": {definitions.KEY: "?"}}), wanted),
        (envelope({"metadata": {"name": "x"}, "binaryData": {definitions.KEY: "AAAA"}}), wanted),
        (found, Chosen("others.example.com", wanted.digest, "r1", "r1")),
    ):
        with pytest.raises(NotPublished):
            restored(each, expected)


# --- the pool


def test_the_first_super_cluster_decides_and_others_are_told() -> None:
    pool = [view("r3", w="one", only="x"), view("r2", w="two"), view("r1", w="one")]
    found = chosen(pool)
    assert found["w"] == Chosen("w", "one", "r1", "r1,r3", ("r2",))
    assert found["only"] == Chosen("only", "x", "r3", "r3")
    assert set(differences(pool, "r2")) == {"w"}
    assert "super cluster r1" in differences(pool, "r2")["w"]
    assert differences(pool, "r1") == differences(pool, "r3") == {}


# --- tenants


def test_a_definition_is_ours_while_its_spec_is_what_vcsync_wrote() -> None:
    body = operators()
    found, wanted = kept(body)
    made = new(wanted, restored(found, wanted))
    assert made["metadata"]["labels"] == {names.SUPER_PUBLIC: names.TRUE}
    made["metadata"]["generation"] = 1
    assert written(envelope(made)) == wanted.digest
    made["metadata"]["generation"] = 2
    assert written(envelope(made)) is None, "the tenant has changed the spec"
    assert written(envelope(body)) is None
    forged = {names.PUBLISHED_BY: "r1", names.DEFINITION: wanted.digest}
    assert written(envelope(operators(annotations=forged))) is None
    assert written(envelope(operators(annotations={names.DEFINITION: mark("other", 1)}))) == "other"


@pytest.mark.parametrize(
    ("stored_versions", "missing"),
    [(["v1"], []), (["v1beta1", "v1"], ["v1beta1"]), (["v2", "v1alpha1"], ["v1alpha1", "v2"]), (None, [])],
)
def test_versions_in_which_objects_may_be_stored_are_missed(
    stored_versions: list[str] | None, missing: list[str]
) -> None:
    found = envelope(operators(status={"storedVersions": stored_versions}))
    assert missing_versions(found, operators()) == missing
