"""ConfigMaps and Secrets that Pods wait for, and the reports about them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from vcsync.kube.errors import NotFound, Status
from vcsync.objects.envelope import Envelope, decode, encode, parse
from vcsync.simulate import reports
from vcsync.simulate.missing_objects import missing, needs

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = reports.Place("172.16.0.1", "10.0.0.1")
BY_KEY = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}


class Api:
    """An API with some ConfigMaps and Secrets."""

    def __init__(self, *there: str) -> None:
        self.there = there

    async def get(self, _resource: Any, name: str, _namespace: str) -> None:
        if name not in self.there:
            raise NotFound(Status(404, "NotFound"))


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Envelope:
    metadata = {"name": "p", "namespace": "n", "uid": "u"}
    spec = {"containers": [{"name": "c"}], **spec}
    return parse(encode({"metadata": metadata, "spec": spec, "status": status or {}}))


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **fields}]}


def lacked(of: Envelope, *there: str) -> list[str]:
    api: Any = Api(*there)
    return [each.event[1] for each in asyncio.run(missing(api, of))]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (container(env=[BY_KEY]), 'Error: secret "s" not found'),
        (container(envFrom=[{"configMapRef": {"name": "m"}}]), 'Error: configmap "m" not found'),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
            'MountVolume.SetUp failed for volume "v" : configmap "m" not found',
        ),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            'MountVolume.SetUp failed for volume "v" : secret "s" not found',
        ),
    ],
)
def test_missing_objects_have_the_kubelets_messages(spec: dict[str, Any], said: str) -> None:
    assert lacked(pod(**spec)) == [said]
    assert lacked(pod(**spec), "s", "m") == []


@pytest.mark.parametrize(
    "spec",
    [
        container(envFrom=[{"secretRef": {"name": "s", "optional": True}}]),
        container(env=[{"name": "A", "value": "1"}]),
        {
            "volumes": [
                {"name": "v", "configMap": {"name": "m", "optional": True}},
                {"name": "e", "emptyDir": {}},
            ]
        },
        {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}]}}]},
    ],
)
def test_optional_and_projected_objects_do_not_delay_a_pod(spec: dict[str, Any]) -> None:
    assert needs(pod(**spec)) == []


def report(of: Envelope, lacks: dict[str, str]) -> Any:
    spec, status = decode(of.spec, reports.Spec), decode(of.status, reports.Status)
    return reports.waiting_for_objects(of, spec, status, PLACE, lacks, NOW)


def test_a_container_that_cannot_be_created_is_reported_once() -> None:
    lacks = {"c": 'secret "s" not found'}
    status = report(pod(**container(env=[BY_KEY])), lacks)
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}
    assert (status["phase"], status["containerStatuses"][0]["state"]) == ("Pending", {"waiting": waiting})
    again = pod(msgspec.json.decode(encode(status)), **container(env=[BY_KEY]))
    assert report(again, lacks) is None
    assert report(again, {"c": 'configmap "m" not found'}) is not None


def test_a_pod_without_its_volumes_is_container_creating() -> None:
    status = report(pod(initContainers=[{"name": "i"}]), {})
    assert [each["state"]["waiting"]["reason"] for each in status["containerStatuses"]] == ["PodInitializing"]
    assert [each["name"] for each in status["initContainerStatuses"]] == ["i"]
    assert report(pod(msgspec.json.decode(encode(status)), initContainers=[{"name": "i"}]), {}) is None


def test_a_pod_starts_once_all_objects_exist_and_conditions_lose_their_reasons() -> None:
    of = pod(msgspec.json.decode(encode(report(pod(), {}))))
    spec, status = decode(of.spec, reports.Spec), decode(of.status, reports.Status)
    started = reports.started(of, spec, status, PLACE, (), NOW + timedelta(hours=1))
    assert started["startTime"] == status.start_time
    ready = next(each for each in started["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("True", None, None)
