"""Large bodies: worked on beside the event loop, and without a product of their parts."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vcsync.controlplane.admission.runtime_classes import MOST_MERGED, merged
from vcsync.controlplane.behaviour import Behaviour
from vcsync.controlplane.rest import meta
from vcsync.controlplane.rest.heavy import LARGE, checked, heavily
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin


def scope(size: int) -> Scope:
    return cast("Scope", SimpleNamespace(size=size, tenant="acme"))


@pytest.mark.parametrize(("size", "aside"), [(0, False), (LARGE, False), (LARGE + 1, True), (3 << 20, True)])
async def test_large_bodies_are_worked_on_beside_the_loop(size: int, *, aside: bool) -> None:
    here = threading.get_ident()
    for ask in (heavily, checked):
        assert (await ask(scope(size), threading.get_ident) != here) is aside


@pytest.mark.parametrize("size", [0, LARGE + 1])
async def test_what_the_work_refuses_is_refused(size: int) -> None:
    def refuse() -> None:
        raise ValueError("no")

    for ask in (heavily, checked):
        with pytest.raises(ValueError, match="no"):
            await ask(scope(size), refuse)


def test_owners_too_many_are_told_of_a_bounded_number_of_times() -> None:
    owner = {"apiVersion": "v1", "kind": "Secret", "uid": "1", "controller": True}
    owners: list[dict[str, Any]] = [{**owner, "name": f"n{number}"} for number in range(500)]
    resource = next(each for each in builtin.resources() if each.plural == "configmaps")
    metadata = {"name": "a", "namespace": "b", "ownerReferences": owners}
    found = meta.findings(metadata, resource=resource, own_name=True, behaviour=Behaviour())
    assert len(found) == meta.MAX_CONTROLLERS_TOLD


def test_tolerations_are_merged_unless_they_are_very_many() -> None:
    same = [{"key": "a", "operator": "Exists"}] * MOST_MERGED
    assert merged(same) == same[:1]
    assert len(merged([*same, *same])) == 2 * MOST_MERGED
