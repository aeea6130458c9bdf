"""Kinds with versions of different shapes."""


async def test_an_event_is_the_same_in_both_groups(api):
    made = await api(
        "POST",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "note": "said",
            "reason": "Why",
            "action": "Act",
            "type": "Normal",
            "reportingController": "me",
            "reportingInstance": "me-1",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        },
    )
    assert made.status == 201, made.body
    assert made["apiVersion"] == "events.k8s.io/v1"
    core = await api("GET", "/api/v1/namespaces/default/events/e")
    assert (core["message"], core["involvedObject.name"], core["reportingComponent"]) == ("said", "p", "me")
    listed = await api("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert listed["items.0.note"] == "said"
    events = await api.watch("/apis/events.k8s.io/v1/namespaces/default/events?watch=1", 1)
    assert events[0]["object"]["note"] == "said"
    for selector in ("reportingController%3Dme", "regarding.name%3Dp"):
        chosen = await api(
            "GET", f"/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector={selector}"
        )
        assert len(chosen["items"]) == 1, chosen.body


HPAS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


async def test_an_invalid_apply_is_refused_even_if_another_version_owns_fields(api):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made = await api(
        "POST",
        HPAS.format("v1"),
        {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}},
    )
    assert made.status == 201, made.body
    applied = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 2**64, "scaleTargetRef": target},
    }
    answer = await api(
        "PATCH",
        HPAS.format("v2") + "/h?fieldManager=me&force=true",
        applied,
        content_type="application/apply-patch+yaml",
    )
    assert answer.status in (400, 422, 500)
    assert "cannot unmarshal number 18446744073709552000" in answer["message"]


async def test_a_write_keeps_owners_of_fields_in_another_version(api):
    path = "namespaces/default/horizontalpodautoscalers"
    target = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    assert (await api("POST", f"/apis/autoscaling/v2/{path}?fieldManager=a", body)).status == 201
    found = await api(
        "PATCH",
        f"/apis/autoscaling/v1/{path}/h?fieldManager=b",
        {"spec": {"minReplicas": 2}},
        content_type="application/merge-patch+json",
    )
    versions = {each["manager"]: each["apiVersion"] for each in found.body["metadata"]["managedFields"]}
    assert versions == {"a": "autoscaling/v2", "b": "autoscaling/v1"}
