"""Events of events.k8s.io and autoscalers in version v1 are views of the kept form."""

import copy
from typing import Any

from vcsync.apimachinery.kinds.autoscaling import horizontal_pod_autoscaler
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.events import event

EVENT = event.KIND.views["v1"]
AUTOSCALER = horizontal_pod_autoscaler.KIND.views["v1"]
REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def kept(**spec: Any) -> dict[str, Any]:
    made = {"metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "scaleTargetRef": REFERENCE, **spec}}
    BEHAVIOURS["autoscaling", "HorizontalPodAutoscaler"].default(made)
    return made


def test_an_event_keeps_everything_under_other_names() -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod"},
        "message": "m",
        "source": {"component": "c"},
        "count": 2,
        "reportingComponent": "r",
    }
    new = EVENT.from_storage(core)
    assert new["regarding"] == {"kind": "Pod"}
    assert new["note"] == "m"
    assert new["reportingController"] == "r"
    assert EVENT.to_storage(new) == core


def test_a_share_of_cpu_has_a_field_of_its_own() -> None:
    old = AUTOSCALER.from_storage(kept())
    assert old["spec"] == {
        "scaleTargetRef": REFERENCE,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 80,
    }
    assert "annotations" not in old["metadata"]
    assert AUTOSCALER.to_storage(old)["spec"]["metrics"] == kept()["spec"]["metrics"]


def test_what_v1_cannot_say_stands_in_annotations_and_comes_back() -> None:
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    new = kept(metrics=[metric], behavior={"scaleUp": {"selectPolicy": "Min"}})
    old = AUTOSCALER.from_storage(new)
    assert old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] == (
        '[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]'
    )
    back = AUTOSCALER.to_storage(old)
    assert back["spec"] == new["spec"]
    assert "annotations" not in back["metadata"]


def test_annotations_that_make_no_sense_are_ignored() -> None:
    old = AUTOSCALER.from_storage(kept())
    for nonsense in ("{", "[" * 5000, "[1]", '"x"', "x" * 300_000):
        hostile = copy.deepcopy(old)
        hostile["metadata"]["annotations"] = {
            "autoscaling.alpha.kubernetes.io/metrics": nonsense,
            "autoscaling.alpha.kubernetes.io/behavior": nonsense,
        }
        assert AUTOSCALER.to_storage(hostile)["spec"]["metrics"] == kept()["spec"]["metrics"]
