"""A tenant's RuntimeClass is mapped to one that the super cluster publishes: the same, or one with its handler."""

import json

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench

from vcsync.api import names
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds import pod_convert, pod_depends
from vcsync.syncer.kinds.runtime import runtime_class_dependency, runtime_classes

OFFERED = msgspec.structs.replace(CONTEXT, runtime_classes={"mine": "sandboxed", "lost": ""})


def runtime_class(name: str, handler: str, *, public: bool = False) -> Envelope:
    labels = {names.SUPER_PUBLIC: names.TRUE} if public else {}
    return parse(json.dumps({"metadata": {"name": name, "labels": labels}, "handler": handler}).encode())


@pytest.mark.parametrize(
    ("theirs", "here", "chosen"),
    [
        ([("mine", "kata")], [("sandboxed", "kata"), ("plain", "runc")], {"mine": "sandboxed"}),
        ([("kata", "kata")], [("a", "kata"), ("kata", "kata")], {"kata": "kata"}),
        ([("mine", "kata")], [("b", "kata"), ("a", "kata")], {"mine": "a"}),
        ([("kata", "gvisor")], [("kata", "kata")], {"kata": ""}),
        ([], [("kata", "kata")], {}),
        ([("kata", names.RUNTIME_HANDLER)], [("a", "kata"), ("kata", "kata")], {"kata": "kata"}),
        ([("kata", names.RUNTIME_HANDLER)], [("a", "kata")], {"kata": ""}),
    ],
    ids=[
        "by handler",
        "of the same name",
        "the first",
        "never by name alone",
        "only the tenant's",
        "published",
        "published elsewhere",
    ],
)
def test_a_class_is_mapped_by_its_handler_or_is_the_published_one(
    theirs: list[tuple[str, str]], here: list[tuple[str, str]], chosen: dict[str, str]
) -> None:
    offered = [runtime_class(*each, public=True) for each in here]
    assert runtime_classes([runtime_class(*each) for each in theirs], offered) == chosen
    kept = [runtime_class(*each) for each in here]
    assert set(runtime_classes([runtime_class(*each) for each in theirs], kept).values()) <= {""}


def converted(runtime: str) -> dict[str, object]:
    spec = {"containers": [{"name": "app", "image": "i"}], "runtimeClassName": runtime}
    v = parse(
        json.dumps({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec}).encode()
    )
    body = pod_convert.convert(v, json.loads(v.spec), OFFERED, Bench())[0]
    assert isinstance(body["spec"], dict)
    return body["spec"]


def test_a_pod_gets_the_super_clusters_class() -> None:
    assert converted("mine")["runtimeClassName"] == "sandboxed"


def test_a_missing_handler_is_refused() -> None:
    with pytest.raises(
        pod_convert.Refused, match="runtimeClassName lost: super cluster r1 publishes no RuntimeClass"
    ):
        converted("lost")


def test_a_pod_waits_for_an_unknown_class(bench: Bench) -> None:
    wait = pod_depends.dependencies_wait("shop", {}, {"runtimeClassName": "new"}, OFFERED, bench)
    assert wait is not None
    assert wait.reason == "the tenant has no RuntimeClass new"
    wait = pod_depends.dependencies_wait("shop", {}, {"runtimeClassName": "mine"}, OFFERED, bench)
    assert wait is None or "RuntimeClass" not in wait.reason


def test_a_pod_waits_for_its_class_only(bench: Bench) -> None:
    wait = pod_depends.dependencies_wait("shop", {}, {"runtimeClassName": "new"}, OFFERED, bench)
    assert wait is not None
    assert wait.on == (runtime_class_dependency("new"),)
    with pytest.raises(pod_convert.Refused) as refused:
        converted("lost")
    assert refused.value.on == (runtime_class_dependency("lost"),)
