"""Reviews of new Pods: which are asked about, what the answer says, and that no body breaks the handler."""

import base64
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.podscheduler.admission_reviews import BadReview, answer, read_review
from vcsync.podscheduler.promises import Birth

SPEC = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
REQUESTS = (("cpu", 1000), ("pods", 1000))


def review(pod: dict[str, Any] | None = None, **request: Any) -> bytes:
    asked = {
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "operation": "CREATE",
        "object": {"metadata": {"name": "p"}, "spec": SPEC} if pod is None else pod,
        **request,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    ).encode()


def patch_of(body: bytes) -> Any:
    response = json.loads(body)["response"]
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


def test_a_plain_pod_is_asked_about():
    asked = read_review(review())
    assert (asked.uid, asked.pod.birth) == ("u", Birth("shop", "p", "", (), REQUESTS))
    assert asked.pod.needs.requests == dict(REQUESTS)
    assert asked.pod.marked == ()


def test_a_generated_name_and_the_owners_identify_a_pod():
    metadata = {"generateName": "web-", "ownerReferences": [{"uid": "rs"}], "labels": {}}
    pod = read_review(review({"metadata": metadata, "spec": SPEC})).pod
    assert pod.birth == Birth("shop", "", "web-", ("rs",), REQUESTS)
    assert pod.marked == ("labels",)


def test_the_labels_by_which_services_select_a_pod_are_read():
    metadata = {"name": "p", "labels": {"app": "web"}}
    assert read_review(review({"metadata": metadata, "spec": SPEC})).pod.labels == {"app": "web"}
    assert read_review(review()).pod.labels == {}


@pytest.mark.parametrize(
    "request_",
    [
        {"dryRun": True},
        {"operation": "UPDATE"},
        {"subResource": "eviction"},
        {"resource": {"group": "", "resource": "configmaps"}},
        {"resource": {"group": "example.com", "resource": "pods"}},
        {"namespace": ""},
    ],
)
def test_nothing_is_promised_to_what_is_no_new_pod(request_):
    assert read_review(review(**request_)).pod is None


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {"name": "p", "labels": {SUPER_CLUSTER: "r1"}}, "spec": SPEC},
        {"metadata": {"name": "p", "annotations": {SUPER_CLUSTER: "r1"}}, "spec": SPEC},
        {"metadata": {"name": "p"}, "spec": SPEC | {"nodeName": "n"}},
        {"metadata": {"name": "p"}, "spec": SPEC | {"schedulerName": "own"}},
        {"metadata": {"name": "p"}, "spec": SPEC | {"schedulingGates": [{"name": "g"}]}},
        {"metadata": {}, "spec": SPEC},
        {"metadata": {"name": "p"}},
    ],
)
def test_pods_that_the_scheduler_judges_later_are_left_to_it(pod):
    assert read_review(review(pod)).pod is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        review(uid=""),
        review(uid="u" * 200),
        review(uid=1),
        review(object="pod"),
        review({"metadata": {"name": "p", "labels": "r1"}, "spec": SPEC}),
        review({"metadata": {"name": "p"}, "spec": []}),
        review(
            {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}
        ),
        review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v2"),
    ],
)
def test_a_malformed_review_is_refused(body):
    with pytest.raises(BadReview):
        read_review(body)


FIELDS = st.sampled_from(["metadata", "spec", "name", "labels", "containers", "resources", "requests"])
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"))


@given(
    st.dictionaries(
        FIELDS,
        st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner)),
    )
)
def test_no_pod_breaks_the_handler(pod):
    with suppress(BadReview):
        assert read_review(review(pod)).uid == "u"


def test_the_answer_allows_the_pod_and_names_the_super_cluster():
    assert json.loads(answer("u")) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }
    assert patch_of(answer("u", "r1", ("labels",))) == [
        {"op": "add", "path": "/metadata/labels/scheduler.virtualcluster.io~1superCluster", "value": "r1"},
        {"op": "add", "path": "/metadata/annotations", "value": {SUPER_CLUSTER: "r1"}},
    ]


def test_an_answer_names_whatever_uid_was_asked():
    uid = 'a"\\\u2028'
    assert msgspec.json.decode(answer(uid))["response"]["uid"] == uid


@pytest.mark.parametrize(
    ("metadata", "keeps"),
    [
        ({"name": "web-0"}, True),
        ({"name": "web-0", "generateName": "web-"}, True),
        ({"name": "web-x2z4b", "generateName": "web-"}, False),
        ({"generateName": "web-"}, False),
        ({"name": "web-0", "finalizers": [COPY_FINALIZER]}, False),
    ],
)
def test_a_pod_of_a_fixed_name_is_to_keep_it(metadata, keeps):
    assert read_review(review({"metadata": metadata, "spec": SPEC})).pod.keeps_name is keeps


@pytest.mark.parametrize("finalizers", [None, [], ["example.com/held"]])
def test_the_answer_adds_the_finalizer_to_those_that_exist(finalizers):
    there = {} if finalizers is None else {"finalizers": finalizers}
    pod = read_review(review({"metadata": {"name": "web-0", **there}, "spec": SPEC})).pod
    added = patch_of(answer("u", "r1", pod.marked, keeps_name=pod.keeps_name))[-1]
    if finalizers is None:
        assert added == {"op": "add", "path": "/metadata/finalizers", "value": [COPY_FINALIZER]}
    else:
        assert added == {"op": "add", "path": "/metadata/finalizers/-", "value": COPY_FINALIZER}
