"""RoleBindings of super namespaces for logs and exec."""

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench, super_ns

from vcsync.api import names, rbac
from vcsync.kube.resources import NAMESPACES, ROLE_BINDINGS
from vcsync.syncer.kinds import KINDS, stream_binding
from vcsync.syncer.kinds.plan import Placement

NAME = "vcsync-streams"


@pytest.fixture
def bench() -> Bench:
    bench = Bench(msgspec.structs.replace(CONTEXT, binds_streams=True))
    bench.place("shop")
    return bench


def bound(bench: Bench) -> bool:
    return bench.has("super", ROLE_BINDINGS, NAME)


def test_a_namespace_is_created_with_its_binding(bench: Bench) -> None:
    bench.placements["web"] = Placement({"r1": 1}, {"cpu": "2"}, {"requests.cpu": "2"})
    bench.put("tenant", NAMESPACES, {"metadata": {"name": "web"}})
    assert len(bench.settle("namespaces", "", "web")) == 1
    made = bench.get("super", ROLE_BINDINGS, NAME, super_ns("web"))
    assert (made["roleRef"], made["subjects"]) == rbac.streams_binding()
    assert made["metadata"]["labels"][names.CONTROLLED] == "true"
    assert made["metadata"]["annotations"][names.NAMESPACE] == "web"
    assert bench.plan("namespaces", "", "web").actions == ()


def test_an_existing_namespace_gets_its_binding(bench: Bench) -> None:
    bench.settle("namespaces", "", "shop")
    assert bound(bench)
    bench.remove("super", ROLE_BINDINGS, NAME)
    bench.settle("namespaces", "", "shop")
    assert bound(bench)


def test_a_changed_binding_is_corrected(bench: Bench) -> None:
    bench.settle("namespaces", "", "shop")
    before = bench.get("super", ROLE_BINDINGS, NAME)["subjects"]
    others = [{"kind": "User", "name": "mallory"}]
    bench.edit("super", ROLE_BINDINGS, NAME, {"subjects": others})
    bench.settle("namespaces", "", "shop")
    assert bench.get("super", ROLE_BINDINGS, NAME)["subjects"] == before


def test_the_syncer_is_bound_as_well_where_it_serves_the_kubelet_api(bench: Bench) -> None:
    bench.settle("namespaces", "", "shop")
    bench.context = msgspec.structs.replace(bench.context, kubelet=("192.0.2.7", 10305))
    bench.settle("namespaces", "", "shop")
    subjects = bench.get("super", ROLE_BINDINGS, NAME)["subjects"]
    assert [each["name"] for each in subjects] == ["vcsync-streams", "vcsync-syncer"]


def test_a_binding_to_another_role_is_left_alone(bench: Bench) -> None:
    bench.settle("namespaces", "", "shop")
    bench.edit("super", ROLE_BINDINGS, NAME, {"roleRef": {"name": "admin"}, "subjects": []})
    assert bench.plan("namespaces", "", "shop").actions == ()


def test_a_syncer_without_the_rights_asks_for_no_binding() -> None:
    bench = Bench()
    bench.place("shop")
    bench.settle("namespaces", "", "shop")
    assert not bound(bench)


def test_a_changed_binding_concerns_its_namespace(bench: Bench) -> None:
    bench.settle("namespaces", "", "shop")
    binding = bench.super(ROLE_BINDINGS, super_ns("shop"), NAME)
    assert binding is not None
    assert KINDS["namespaces"].related[1].item(binding) == ("", "shop")
    other = msgspec.structs.replace(binding, name="other")
    assert stream_binding.namespace_of(other) is None
