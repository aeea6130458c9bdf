"""Published GatewayClasses: tenants learn the controller and the description, and nothing of its parameters."""

import json
from typing import Any

from vcsync.api import names
from vcsync.api.specs import PublishedGatewayClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.gateway_class import KIND, describe
from vcsync.published.kind import difference, is_ours, wanted
from vcsync.scheduling.snapshot import Health, SuperView


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def view(super_id: str, controller: str = "example.com/gateways", description: str = "") -> SuperView:
    found = PublishedGatewayClass(name="web", controller_name=controller, description=description)
    return SuperView(super_id, Health.READY, {}, gateway_classes=(found,))


def test_parameters_stay_with_the_operator() -> None:
    parameters = {"group": "example.com", "kind": "Settings", "name": "internal"}
    spec = {"controllerName": "example.com/gateways", "description": "Public", "parametersRef": parameters}
    found = describe(envelope({"metadata": {"name": "web"}, "spec": spec}))
    assert found == PublishedGatewayClass(
        name="web", controller_name="example.com/gateways", description="Public"
    )


def test_the_first_super_cluster_names_the_controller() -> None:
    body = wanted(KIND, [view("r2", "example.com/others", "theirs"), view("r1", description="ours")])["web"]
    assert body["spec"] == {"controllerName": "example.com/gateways", "description": "ours"}
    assert body["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1,r2"}
    assert is_ours(KIND, envelope(body))
    assert difference(KIND, envelope(body), body) == {}


def test_only_another_controller_has_the_class_made_again() -> None:
    body = wanted(KIND, [view("r1", description="Public")])["web"]
    changed = {**body, "spec": {**body["spec"], "description": "x", "parametersRef": {"name": "own"}}}
    assert difference(KIND, envelope(changed), body) == {
        "spec": {"description": "Public", "parametersRef": None}
    }
    assert difference(KIND, envelope(body), wanted(KIND, [view("r1")])["web"]) == {
        "spec": {"description": None}
    }
    assert difference(KIND, envelope(body), wanted(KIND, [view("r1", "example.com/new")])["web"]) is None


def test_a_class_without_our_annotation_is_the_tenants() -> None:
    own = {"metadata": {"name": "web", "labels": {names.SUPER_PUBLIC: names.TRUE}}, "spec": {}}
    assert not is_ours(KIND, envelope(own))
