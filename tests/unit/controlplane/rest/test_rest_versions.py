"""Kinds that are served in versions of different shape."""


async def test_an_event_is_the_same_under_both_names(api):
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


async def test_what_is_applied_and_does_not_fit_is_refused_though_another_version_owns_fields(api):
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
    assert "cannot unmarshal number 18446744073709551616" in answer["message"]
