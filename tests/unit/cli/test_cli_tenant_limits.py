"""Options for a tenant's limits, and the output and the patch of a change."""

from typing import Any

import pytest

from vcsync.api.fields import Quantity
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterSpec
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.tenant.limits import changes, limits_of


def tenant(**spec: Any) -> VirtualCluster:
    return VirtualCluster(name="acme", spec=VirtualClusterSpec(tenant="acme", **spec))


def test_only_options_that_were_used_are_fields() -> None:
    assert limits_of(default_quota=(), quota=("cpu=2", "memory=4Gi"), slice_size=("",)) == {
        "quota": {"cpu": "2", "memory": "4Gi"},
        "sliceSize": {},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"quota": ("cpu",)}, "--quota 'cpu': give RESOURCE=AMOUNT"),
        ({"default_quota": ("cpu=lots",)}, "--default-quota 'cpu=lots'"),
        ({"slice_size": ("cpu=2",)}, "--slice-size"),
        ({"slice_size": ("cpu=0,memory=1Gi",)}, "--slice-size 'cpu=0'"),
        (
            {"quota": ("cpus=3,memory=4Gi",)},
            "--quota cpus: unknown resource; known ones are cpu, memory, pods",
        ),
        (
            {"default_quota": ("cpu=1,pods=4",)},
            "--default-quota pods: unknown resource; known ones are cpu, memory",
        ),
    ],
)
def test_invalid_amounts_are_refused_with_the_options_name(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(WrongInputError) as caught:
        limits_of(**given)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("before", "wish", "patch", "expected"),
    [
        ({}, {"weight": 3}, {"weight": 3}, ["weight 1, now 3"]),
        ({"weight": 3}, {"weight": 3}, {}, []),
        (
            {"quota": {"cpu": Quantity("2"), "memory": Quantity("4Gi")}},
            {"quota": {"cpu": "3"}},
            {"quota": {"cpu": "3", "memory": None}},
            ["quota cpu=2,memory=4Gi, now cpu=3"],
        ),
        ({}, {"quota": {"cpu": "3"}}, {"quota": {"cpu": "3"}}, ["quota none, now cpu=3"]),
        (
            {"default_quota": {"cpu": Quantity("2")}},
            {"defaultQuota": {}},
            {"defaultQuota": None},
            ["defaultQuota cpu=2, now none"],
        ),
        ({}, {"defaultQuota": {}}, {}, []),
    ],
)
def test_a_change_shows_old_and_new_values(
    before: dict[str, Any], wish: dict[str, Any], patch: dict[str, Any], expected: list[str]
) -> None:
    assert changes(tenant(**before), wish) == (patch, expected)
