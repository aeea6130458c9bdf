"""The definition of Network: what it refuses, with messages that name the field and the remedy."""

from typing import Any

import pytest

from vcsync.api import served
from vcsync.api.networks import MAX_NAME_LENGTH, SERVICE_PREFIX
from vcsync.apimachinery.crd.custom_resource import compile_version

(DEFINITION,) = served.established(served.NETWORKS)
COMPILED = compile_version(DEFINITION, "v1alpha1")


def network(name: str = "blue", **spec: Any) -> dict[str, Any]:
    found = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "Network",
        "metadata": {"name": name},
        "spec": spec,
    }
    COMPILED.decode(found)
    return found


def found(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    behaviour = COMPILED.behaviour
    findings = behaviour.validate(new) if old is None else behaviour.validate_update(new, old)
    return [f"{each.field}: {each.body}" for each in findings]


@pytest.mark.parametrize(
    "spec", [{}, {"type": "Flat"}, {"type": "VPC", "vpcID": "v-1"}, {"type": "VPC", "vpcID": "vpc_1.A"}]
)
def test_a_network_is_flat_or_a_vpc(spec: dict[str, Any]) -> None:
    made = network(**spec)
    assert made["spec"]["type"] == spec.get("type", "Flat")
    assert found(made) == []
    assert found(made, network(**spec)) == []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (network(type="flat"), 'supported values: "Flat", "VPC"'),
        (network(type="VPC"), "spec.vpcID is required with type VPC: set it to the name of the VPC"),
        (
            network(vpcID="v"),
            "spec.vpcID has a meaning with type VPC only: remove it, or set spec.type to VPC",
        ),
        (network(type="VPC", vpcID="a b"), "spec.vpcID in body should match"),
        (network(type="VPC", vpcID="v" * 64), "spec.vpcID: Too long: may not be more than 63 bytes"),
        (network("a.b"), "metadata.name becomes part of the name of Service kube-dns-NAME"),
        (network("b" * (MAX_NAME_LENGTH + 1)), "of at most 54 characters"),
    ],
)
def test_anything_else_is_refused_with_the_field_and_the_remedy(made: dict[str, Any], message: str) -> None:
    told = found(made)
    assert any(message in each for each in told), told


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (network(), network(type="VPC", vpcID="v"), "spec.type: Invalid value"),
        (network(type="VPC", vpcID="v"), network(type="VPC", vpcID="w"), "spec.vpcID cannot change"),
        (network(type="VPC", vpcID="v"), network(), "spec.vpcID cannot change"),
        (network(), network(type="VPC", vpcID="v"), "delete the network and create another one"),
    ],
)
def test_type_and_vpc_do_not_change(old: dict[str, Any], new: dict[str, Any], message: str) -> None:
    told = found(new, old)
    assert any(message in each for each in told), told


def test_the_longest_name_makes_a_name_of_a_service() -> None:
    assert found(network("b" * MAX_NAME_LENGTH)) == []
    assert len(f"{SERVICE_PREFIX}{'b' * MAX_NAME_LENGTH}") == 63
