"""Published IngressClasses: tenants learn the name and whether it is the default, and nothing of the controller."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import PublishedIngressClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.ingress_class import DEFAULT, KIND, describe
from vcsync.published.kind import difference, is_ours, wanted
from vcsync.scheduling.snapshot import Health, SuperView


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def view(super_id: str, *classes: PublishedIngressClass) -> SuperView:
    return SuperView(super_id, Health.READY, {}, ingress_classes=classes)


def cls(name: str = "nginx", *, default: bool = False) -> PublishedIngressClass:
    return PublishedIngressClass(name=name, default=default)


def test_only_name_and_default_are_read() -> None:
    parameters = {"apiGroup": "example.com", "kind": "Config", "name": "secret", "namespace": "ingress"}
    spec = {"controller": "example.com/ingress", "parameters": parameters}
    found = {"metadata": {"name": "nginx", "annotations": {DEFAULT: "true", "example.com/lb": "10.0.0.1"}}}
    assert describe(envelope({**found, "spec": spec})) == cls(default=True)


def test_a_tenants_class_has_vcsyncs_controller_and_no_parameters() -> None:
    body = wanted(KIND, [view("r1", cls()), view("r2", cls())])["nginx"]
    assert body["spec"] == {"controller": names.INGRESS_CONTROLLER}
    assert body["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1,r2"}


@pytest.mark.parametrize(
    ("one", "other", "defaults"),
    [
        ([cls(default=True)], [cls()], ["nginx"]),
        ([cls(default=True)], [cls(default=True), cls("haproxy")], ["nginx"]),
        ([cls(default=True)], [cls("haproxy", default=True)], []),
        ([cls()], [cls("haproxy")], []),
    ],
)
def test_a_default_holds_for_the_whole_pool_or_not_at_all(
    one: list[PublishedIngressClass], other: list[PublishedIngressClass], defaults: list[str]
) -> None:
    found = wanted(KIND, [view("r1", *one), view("r2", *other)])
    assert [name for name, body in found.items() if DEFAULT in body["metadata"]["annotations"]] == defaults


def test_a_class_that_the_tenant_gave_parameters_is_made_again() -> None:
    body = wanted(KIND, [view("r1", cls())])["nginx"]
    changed = {**body, "spec": {**body["spec"], "parameters": {"kind": "Config", "name": "own"}}}
    assert is_ours(KIND, envelope(changed))
    assert difference(KIND, envelope(changed), body) is None
    other = {**body, "spec": {"controller": "k8s.io/ingress-nginx"}}
    assert not is_ours(KIND, envelope(other))
