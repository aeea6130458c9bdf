"""Inputs that grow cover every field of every kind in each way, and superlinear costs are found."""

import json

import pytest

from hack.fuzz import growth, growth_custom
from hack.fuzz.growing import growths, suspicious
from hack.fuzz.growth import COUNT, DEPTH, FACTOR, TEXT_SIZE, placed, ways
from vcsync.apimachinery.schema.node import Schema


def test_every_kind_that_can_be_created_grows() -> None:
    kinds = {resource.plural for resource, _, _ in growth.bases()}
    assert {
        "pods",
        "customresourcedefinitions",
        "selfsubjectaccessreviews",
        "validatingadmissionpolicies",
    } <= kinds
    named = {each.name.split(":")[0] for each in growth.of_kinds()}
    assert len(named) > len(kinds) / 2  # the others have no field of their own


def test_fields_of_one_type_grow_once() -> None:
    paths = {each.name.split(": ")[1] for each in growth.of_kinds()}
    assert sum(path.endswith("fieldRef.fieldPath") for path in paths) == 1


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        (Schema("string"), TEXT_SIZE),
        (Schema("array", items=Schema("string")), COUNT),
        (Schema("map", values=Schema("string")), COUNT),
        (Schema("integer"), DEPTH),
    ],
)
def test_values_grow_in_proportion(schema: Schema, size: int) -> None:
    found = list(ways(schema))
    assert found
    assert found[0][1] == size
    for _, least, value in found:
        small, large = (len(json.dumps(value(each))) for each in (least, least * FACTOR))
        assert 2 < large / small < 2 * FACTOR


def test_a_value_is_placed_within_a_copy() -> None:
    base = {"spec": {"containers": [{"name": "c"}, {"name": "d"}]}}
    found = placed(base, ("spec", "containers", 0, "env", 0, "value"), "v")
    assert found == {"spec": {"containers": [{"name": "c", "env": [{"value": "v"}]}, {"name": "d"}]}}
    assert base == {"spec": {"containers": [{"name": "c"}, {"name": "d"}]}}


@pytest.mark.parametrize(
    ("small", "large", "found"),
    [(0.01, 0.04, False), (0.01, 0.16, True), (0.0001, 0.0016, False), (0.005, 1.0, True)],
)
def test_costs_that_grow_faster_than_the_input_are_suspicious(
    small: float, large: float, found: bool
) -> None:
    assert suspicious(small, large) is found


def test_the_order_depends_on_the_seed_alone() -> None:
    ruled = growth_custom.functions()
    first, again, other = ([each.name for each in growths(ruled, seed, "rule")] for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other)


def test_requests_are_well_formed() -> None:
    for each in (next(growth.of_kinds()), next(growth.of_requests()), next(growth_custom.of_expressions())):
        method, target, headers, body = each.request(each.size)
        assert method in ("GET", "POST")
        assert target.startswith("/")
        assert all("\n" not in value for value in headers.values())
        assert body is None or json.loads(body)
