"""CustomResourceDefinitions that operators publish reach tenants on real API servers, and their objects are never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, annotation, condition, items, read
from snapshotter_kit import BASE, GROUP, SNAPSHOTS, Snapshotter, definition, served, snapshot, snapshot_class
from volume_kit import bound, claim, published, shown, user

from hack.testbed import Cluster, KubectlError
from hack.testbed.provisioner import storage_class
from tests.real.waiting import eventually
from vcsync.api import names

pytestmark = pytest.mark.timeout(900)

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "widgets.published.example.com"
RETRIED_SECONDS = 180.0
"""Time until a kind that a server begins to serve has been found, on a quiet machine: up to two pauses of a minute."""
WEBHOOK: Json = {
    "conversion": {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://converter.operators.example/convert"},
            "conversionReviewVersions": ["v1"],
        },
    }
}
"""Part of the spec of a definition that tenants must not get."""
V1, V1ALPHA1 = "v1", "v1alpha1"


def version(name: str, *, storage: bool = True, **properties: Any) -> Json:
    schema = {"type": "object", "properties": {"size": {"type": "string"}, **properties}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def widgets(*versions: Json, public: bool = True, **spec: Any) -> Json:
    """Return a definition of Widgets."""
    labels = {"vendor": "operator"} | ({names.SUPER_PUBLIC: names.TRUE} if public else {})
    plural, _, group = WIDGETS.partition(".")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": WIDGETS,
            "labels": labels,
            "annotations": {"operators.example.com/note": "internal"},
        },
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": plural},
            "scope": "Namespaced",
            "versions": list(versions or (version(V1),)),
            **spec,
        },
    }


def widget(name: str, of: str = V1) -> Json:
    group = WIDGETS.partition(".")[2]
    return {"apiVersion": f"{group}/{of}", "kind": "Widget", "metadata": {"name": name}, "size": "large"}


def applied(space: Space, body: Json) -> bool:
    """Apply an object, and return true. It fails until the server has begun to serve the kind."""
    space.apply(body)
    return True


def removed(cluster: Cluster, *found: str) -> None:
    """Delete definitions, and wait until they and their objects are gone."""
    cluster.kubectl("delete", "crd", *found, "--ignore-not-found", "--wait=false")
    for name in found:
        eventually(lambda name=name: read(cluster, f"{DEFINITIONS}/{name}") is None, RETRIED_SECONDS)  # type: ignore[misc]


@contextmanager
def at(pool: Pool, super_id: str, body: Json) -> Iterator[None]:
    """Have a definition in a super cluster as its operator, until the block ends."""
    cluster = pool.supers[super_id]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    try:
        yield
    finally:
        removed(cluster, body["metadata"]["name"])


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace of a tenant. Afterwards no tenant has the definitions of these tests, which nobody else removes."""
    gateways = gateway_classes()["metadata"]["name"]
    found = (WIDGETS, gateways, *(definition(kind)["metadata"]["name"] for kind in SYNCED))
    with pool.space() as space:
        yield space
        # While they are published, those that are removed come back.
        supers = f"/apis/{names.API_VERSION}/superclusters"
        eventually(
            lambda: (
                not any(each["status"]["customResourceDefinitions"] for each in items(pool.bed.meta, supers))
            )
        )
        for tenant in ("acme", "umbrella"):
            eventually(lambda tenant=tenant: not published_to(pool.cluster(tenant)))  # type: ignore[misc]
            removed(pool.cluster(tenant), *found)


def published_to(tenant: Cluster) -> list[Json]:
    """Return the definitions of a tenant that are published now."""
    return items(tenant, f"{DEFINITIONS}?labelSelector={names.SUPER_PUBLIC}")


def seen(space: Space, name: str = WIDGETS) -> Json | None:
    return read(space.tenant, f"{DEFINITIONS}/{name}")


def publishers(space: Space, name: str = WIDGETS) -> str | None:
    """Return the super clusters that the tenant's definition names; None if it names none, or does not exist."""
    return annotation(seen(space, name), names.PUBLISHED_BY)


def label(pool: Pool, super_id: str, name: str, value: str) -> None:
    pool.supers[super_id].kubectl("label", "crd", name, "--overwrite", f"{names.SUPER_PUBLIC}{value}")


def events(space: Space, reason: str, name: str = WIDGETS) -> list[str]:
    about = f"involvedObject.name%3D{name},reason%3D{reason}"
    found = read(space.tenant, f"/api/v1/namespaces/default/events?fieldSelector={about}")
    return [each["message"] for each in (found or {}).get("items", [])]


def told(space: Space, reason: str, text: str, name: str = WIDGETS) -> None:
    """Wait for an Event about a definition that contains a text."""
    eventually(lambda: any(text in each for each in events(space, reason, name)))


def not_published(pool: Pool, super_id: str) -> Json:
    found = read(pool.bed.meta, f"/apis/{names.API_VERSION}/superclusters/{super_id}")
    return condition(found, "DefinitionsNotPublished")


def versions(space: Space) -> list[str]:
    return [each["name"] for each in (seen(space) or {"spec": {"versions": []}})["spec"]["versions"]]


# --- VolumeSnapshots without a definition of the tenant's

SYNCED = ("VolumeSnapshot", "VolumeSnapshotClass")
"""Kinds whose definitions an operator publishes, so that tenants can take snapshots."""


def test_snapshots_work_in_tenants_that_install_nothing(pool: Pool, space: Space) -> None:
    supers = list(pool.supers.values())
    there = [definition(kind)["metadata"]["name"] for kind in SYNCED]
    with ExitStack() as stack:
        stack.enter_context(published(pool, {each: [storage_class("cloning")] for each in pool.supers}))
        stack.enter_context(served(*supers))
        for each in supers:
            each.kubectl("apply", "-f", "-", input=json.dumps(snapshot_class("nightly")))
        stack.enter_context(Snapshotter(pool.supers["r1"]))
        assert read(space.tenant, f"{BASE}/{SNAPSHOTS}") is None
        for super_id in pool.supers:
            for name in there:
                label(pool, super_id, name, "=true")
        for name in there:
            eventually(lambda name=name: publishers(space, name) == "r1,r2")  # type: ignore[misc]
        assert seen(space, definition("VolumeSnapshotContent")["metadata"]["name"]) is None
        eventually(
            lambda: read(space.tenant, f"{BASE}/volumesnapshotclasses/nightly") is not None, RETRIED_SECONDS
        )
        eventually(lambda: shown(space, "cloning") == "r1,r2")
        space.apply(claim("data", "cloning"), user("writer", "data", on="r1"))
        bound(space, "data")
        space.apply(snapshot("monday"))

        def ready() -> bool:
            found = space.get(SNAPSHOTS, "monday", f"{GROUP}/v1") or {}
            return bool((found.get("status") or {}).get("readyToUse"))

        eventually(ready, 4 * RETRIED_SECONDS)
        # The operator withdraws the definitions: the tenant keeps them, and its snapshot.
        for super_id in pool.supers:
            for name in there:
                label(pool, super_id, name, "-")
        for name in there:
            eventually(lambda name=name: seen(space, name) and publishers(space, name) is None)  # type: ignore[misc]
        assert names.SUPER_PUBLIC not in (seen(space, there[0]) or {})["metadata"].get("labels", {})
        assert ready()
        for super_id in pool.supers:
            label(pool, super_id, there[0], "=true")
        eventually(lambda: publishers(space, there[0]) == "r1,r2")
        assert ready()


# --- what goes along


def test_only_the_spec_goes_along(pool: Pool, space: Space) -> None:
    with at(pool, "r1", widgets()):
        eventually(lambda: publishers(space) == "r1")
        found = seen(space)
        assert found is not None
        assert found["metadata"]["labels"] == {names.SUPER_PUBLIC: names.TRUE}
        assert set(found["metadata"]["annotations"]) == {names.PUBLISHED_BY, names.DEFINITION}
        eventually(lambda: condition(seen(space), "Established").get("status") == "True")
        eventually(lambda: applied(space, widget("one")))
    eventually(lambda: publishers(space) is None)
    assert space.get("widgets", "one", widget("one")["apiVersion"]) is not None


def test_a_definition_with_a_webhook_is_refused_and_the_operator_is_told(pool: Pool, space: Space) -> None:
    with at(pool, "r1", widgets(**WEBHOOK)):
        eventually(lambda: "spec.conversion.strategy" in not_published(pool, "r1").get("message", ""))
        assert not_published(pool, "r1")["status"] == "True"
        assert seen(space) is None
        # An operator that publishes one without webhook is heard.
        pool.supers["r1"].kubectl(
            "apply", "-f", "-", input=json.dumps(widgets(conversion={"strategy": "None"}))
        )
        eventually(lambda: publishers(space) == "r1")
        eventually(lambda: not_published(pool, "r1")["status"] == "False")


def test_the_first_super_cluster_decides_and_another_is_told(pool: Pool, space: Space) -> None:
    other = widgets(version(V1, colour={"type": "string"}))
    with at(pool, "r2", other):
        eventually(lambda: publishers(space) == "r2")
        with at(pool, "r1", widgets()):
            eventually(lambda: publishers(space) == "r1")
            schema = (seen(space) or {})["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            assert set(schema["properties"]) == {"size"}
            eventually(
                lambda: (
                    "differs from that of super cluster r1" in not_published(pool, "r2").get("message", "")
                )
            )
            pool.supers["r2"].kubectl("apply", "-f", "-", input=json.dumps(widgets()))
            eventually(lambda: publishers(space) == "r1,r2")
            eventually(lambda: not_published(pool, "r2")["status"] == "False")


def test_no_version_is_lost_in_which_objects_may_be_stored(pool: Pool, space: Space) -> None:
    with at(pool, "r1", widgets(version(V1ALPHA1))):
        eventually(lambda: publishers(space) == "r1")
        eventually(lambda: applied(space, widget("one", V1ALPHA1)))
    with at(pool, "r1", widgets(version(V1))):
        told(space, "DefinitionKept", "without version v1alpha1")
        assert versions(space) == [V1ALPHA1]
        both = widgets(version(V1ALPHA1, storage=False), version(V1))
        pool.supers["r1"].kubectl("apply", "-f", "-", input=json.dumps(both))
        eventually(lambda: versions(space) == [V1ALPHA1, V1])
        eventually(
            lambda: (space.get("widgets", "one", widget("one")["apiVersion"]) or {}).get("size") == "large"
        )


# --- whose a definition is


def test_a_tenants_own_definition_stays_and_is_told_that_it_hides_one(pool: Pool, space: Space) -> None:
    forged = {names.PUBLISHED_BY: "r1", names.DEFINITION: "0123456789abcdef.7"}
    own = widgets(version("v2"))
    own["metadata"]["annotations"] = forged
    space.apply(own)
    uid = (seen(space) or {})["metadata"]["uid"]
    with at(pool, "r1", widgets()):
        told(space, "Hidden", "your operator publishes")
        assert versions(space) == ["v2"]
    # Withdrawal does nothing to it, either.
    with at(pool, "r1", widgets(public=False)):
        texts = (
            f"/api/v1/namespaces/{names.DEFINITIONS_NAMESPACE}/configmaps?labelSelector={names.DEFINITION_OF}"
        )
        eventually(lambda: not items(pool.bed.meta, texts))
        found = seen(space) or {}
        assert found["metadata"]["uid"] == uid
        assert found["metadata"]["annotations"][names.DEFINITION] == forged[names.DEFINITION]
    with at(pool, "r1", widgets()):
        space.kubectl("delete", "crd", WIDGETS, "--wait=false")
        eventually(lambda: publishers(space) == "r1" and versions(space) == [V1], RETRIED_SECONDS)


def test_a_definition_that_the_tenant_changes_becomes_its_own(pool: Pool, space: Space) -> None:
    """Its chart may bring the same definition. The two must not take turns."""
    with at(pool, "r1", widgets()):
        eventually(lambda: publishers(space) == "r1")
        space.apply(widgets(version(V1), version("v2", storage=False)))
        told(space, "Hidden", "your operator publishes")
        pool.supers["r1"].kubectl(
            "apply", "-f", "-", input=json.dumps(widgets(version(V1, colour={"type": "string"})))
        )
        with at(pool, "r2", widgets(version(V1, colour={"type": "string"}))):
            eventually(lambda: not_published(pool, "r2").get("status") != "True")
            assert versions(space) == [V1, "v2"]
        space.kubectl("delete", "crd", WIDGETS, "--wait=false")
        eventually(lambda: publishers(space) == "r1" and versions(space) == [V1], RETRIED_SECONDS)


@contextmanager
def forbidden(space: Space, message: str) -> Iterator[None]:
    """Have the tenant's own admission refuse the definition, until the block ends."""
    name = "no-widgets"
    rule = {
        "apiGroups": ["apiextensions.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [WIDGETS],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    policy = {
        **kind,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": message}],
        },
    }
    binding = {
        **kind,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    space.apply(policy, binding)

    def refused() -> bool:
        try:
            space.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(widgets(public=False)))
        except KubectlError as error:
            return message in str(error)
        return False

    try:
        eventually(refused)
        yield
    finally:
        space.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


def test_a_definition_that_the_tenants_admission_refuses_is_offered_again_after_a_change(
    pool: Pool, space: Space
) -> None:
    with ExitStack() as stack:
        with forbidden(space, "the quota of definitions is used up"):
            stack.enter_context(at(pool, "r1", widgets()))
            told(space, "NotPublished", "the quota of definitions is used up")
            assert seen(space) is None
        changed = widgets(version(V1, colour={"type": "string"}))
        pool.supers["r1"].kubectl("apply", "-f", "-", input=json.dumps(changed))
        eventually(lambda: publishers(space) == "r1")


def test_the_role_can_change_no_definition_that_it_has_not_made(space: Space) -> None:
    user = (
        f"--as=system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(names.ROLE_NSSCHEDULER)}"
    )
    space.apply(widgets(public=False))

    def refusal(*arguments: str, given: Json | None = None) -> str:
        try:
            return space.tenant.kubectl(*arguments, user, input=json.dumps(given) if given else None)
        except KubectlError as error:
            return str(error)

    change = ("patch", "crd", WIDGETS, "--type=merge", "-p", '{"metadata": {"labels": {"a": "b"}}}')
    assert "may only change definitions that it has made" in refusal(*change)
    assert "forbidden" in refusal("delete", "crd", WIDGETS)
    removed(space.tenant, WIDGETS)
    assert "may only write definitions without webhook" in refusal(
        "create", "-f", "-", given=widgets(**WEBHOOK)
    )


def test_what_changes_while_the_roles_are_down_is_caught_up(pool: Pool, space: Space) -> None:
    with at(pool, "r1", widgets()):
        eventually(lambda: publishers(space) == "r1")
        pool.system.kill("nsscheduler")
        pool.system.kill("syncer-r1")
        label(pool, "r1", WIDGETS, "-")
        pool.system.start("syncer-r1")
        pool.system.start("nsscheduler")
        eventually(lambda: seen(space) and publishers(space) is None)
        label(pool, "r1", WIDGETS, "=true")
        eventually(lambda: publishers(space) == "r1")


# --- GatewayClasses

GATEWAYS = "gateway.networking.k8s.io"


def gateway_classes() -> Json:
    """Return the definition of GatewayClasses, as far as it matters here."""
    properties = {
        "spec": {
            "type": "object",
            "required": ["controllerName"],
            "properties": {
                "controllerName": {
                    "type": "string",
                    "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "Value is immutable"}
                    ],
                },
                "description": {"type": "string", "maxLength": 64},
                "parametersRef": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    approved = "https://github.com/kubernetes-sigs/gateway-api/pull/2466"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"gatewayclasses.{GATEWAYS}",
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": {"api-approved.kubernetes.io": approved},
        },
        "spec": {
            "group": GATEWAYS,
            "names": {"kind": "GatewayClass", "plural": "gatewayclasses"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def test_gateway_classes_follow_their_definition_without_parameters(pool: Pool, space: Space) -> None:
    body = gateway_classes()
    parameters = {"group": "example.com", "kind": "Settings", "name": "internal"}
    spec = {"controllerName": "example.com/gateways", "description": "Public", "parametersRef": parameters}
    made = {"apiVersion": f"{GATEWAYS}/v1", "kind": "GatewayClass"}
    metadata = {"name": "web", "labels": {names.SUPER_PUBLIC: names.TRUE}}

    def theirs() -> Json:
        return (read(space.tenant, f"/apis/{GATEWAYS}/v1/gatewayclasses/web") or {}).get("spec") or {}

    with at(pool, "r1", body):
        eventually(lambda: publishers(space, body["metadata"]["name"]) == "r1")
        r1 = pool.supers["r1"]
        eventually(
            lambda: r1.kubectl(
                "apply", "-f", "-", input=json.dumps({**made, "metadata": metadata, "spec": spec})
            )
        )
        expected = {"controllerName": "example.com/gateways", "description": "Public"}
        eventually(lambda: theirs() == expected, 2 * RETRIED_SECONDS)
        r1.kubectl("patch", "gatewayclass", "web", "--type=merge", "-p", '{"spec":{"description":"All"}}')
        eventually(lambda: theirs() == {**expected, "description": "All"})
