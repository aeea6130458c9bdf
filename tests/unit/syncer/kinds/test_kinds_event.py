"""The translation of Events for tenants."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, KEY, super_ns
from msgspec.structs import replace

from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds import volume_event
from vcsync.syncer.kinds.event import event_time, event_up, regarding

POD = Envelope("web", "shop", "v-uid", spec=b'{"nodeName":"node-1.r1"}')


def event(message: str = "m", **fields: Any) -> Envelope:
    body = {
        "metadata": {
            "name": "web.17",
            "namespace": super_ns("shop"),
            "creationTimestamp": "2026-05-01T12:00:00Z",
        },
        "involvedObject": {
            "kind": "Pod",
            "namespace": super_ns("shop"),
            "name": "web",
            "uid": "p-uid",
            "apiVersion": "v1",
            "resourceVersion": "77",
            "fieldPath": "spec.containers{app}",
        },
        "reason": "Pulled",
        "type": "Normal",
        "message": message,
        "source": {"component": "kubelet", "host": "node-1"},
        "reportingComponent": "kubelet",
        "reportingInstance": "node-1",
        "count": 1,
        "firstTimestamp": "2026-05-01T12:00:00Z",
        "lastTimestamp": "2026-05-01T12:00:01Z",
        **fields,
    }
    return parse(json.dumps(body).encode())


def test_an_event_is_about_the_tenants_object() -> None:
    translated = event_up(event(), POD, CONTEXT)
    assert (translated.namespace, translated.name, translated.repeated) == ("shop", "web.17", False)
    assert translated.body["metadata"] == {"name": "web.17", "namespace": "shop"}
    assert translated.body["involvedObject"] == {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "v-uid",
        "apiVersion": "v1",
        "fieldPath": "spec.containers{app}",
    }
    assert translated.body["source"] == {"component": "kubelet", "host": "node-1.r1"}
    assert translated.body["reportingInstance"] == "node-1.r1"
    assert translated.body["reportingComponent"] == "kubelet"
    assert regarding(event()).name == "web"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f"Successfully assigned {super_ns('shop')}/web to node-1",
            "Successfully assigned shop/web to node-1.r1",
        ),
        (
            f"Successfully assigned {super_ns('shop')}/web to node-2.",
            "Successfully assigned shop/web to node-2.r1.",
        ),
        (
            "node-1: node-10 my-node-1 node-1.example node-1",
            "node-1.r1: node-10 my-node-1 node-1.example node-1.r1",
        ),
        ("mount /pods/p-uid/volumes failed", "mount /pods/v-uid/volumes failed"),
        (f"see {KEY}-other/x", "see other/x"),
        (f"Pulling image registry.example/{KEY}-app:1", f"Pulling image registry.example/{KEY}-app:1"),
        ("\\1 \\g<0> node-1", "\\1 \\g<0> node-1.r1"),
    ],
)
def test_names_in_messages_are_the_tenants(message: str, expected: str) -> None:
    assert event_up(event(message), POD, CONTEXT).body["message"] == expected


def test_a_cluster_key_that_is_a_common_word_does_not_change_messages() -> None:
    context = msgspec.structs.replace(CONTEXT, key="web")
    message = "Pulling image web/app:1 on web, see /var/web-data"
    assert event_up(event(message), POD, context).body["message"] == message


def test_a_repeated_event_updates_its_count() -> None:
    series = {"count": 9, "lastObservedTime": "2026-05-01T12:05:00.000000Z"}
    translated = event_up(event(count=4, series=series), POD, CONTEXT)
    assert translated.repeated
    assert translated.update == {
        "count": 4,
        "lastTimestamp": "2026-05-01T12:00:01Z",
        "series": series,
        "message": "m",
    }


@pytest.mark.parametrize(
    ("fields", "minute"),
    [
        ({"series": {"count": 2, "lastObservedTime": "2026-05-01T12:05:00.123456Z"}}, 5),
        ({"lastTimestamp": "2026-05-01T12:04:00Z"}, 4),
        ({"lastTimestamp": None, "eventTime": "2026-05-01T12:03:00.5Z"}, 3),
        ({"lastTimestamp": None, "eventTime": None, "firstTimestamp": "2026-05-01T12:02:00Z"}, 2),
        ({"lastTimestamp": "rubbish", "firstTimestamp": None}, 0),
    ],
)
def test_the_time_of_an_event(fields: dict[str, Any], minute: int) -> None:
    moment = event_time(event(**fields))
    assert moment is not None
    assert moment.replace(second=0, microsecond=0) == datetime(2026, 5, 1, 12, minute, tzinfo=UTC)


def test_an_event_may_have_no_time() -> None:
    raw = b'{"metadata":{"name":"e","creationTimestamp":"2026-01-01T00:00:00Z"},"series":{"lastObservedTime":null,"count":null}}'

    assert event_time(parse(raw)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_events_about_claims_tell_nothing_of_the_operators_storage() -> None:
    claim = Envelope("data", "shop", "v-uid")
    about = {"kind": "PersistentVolumeClaim", "namespace": super_ns("shop"), "name": "data", "uid": "p-uid"}
    translated = event_up(
        event(
            "failed to provision volume with StorageClass fast: rpc error: http://10.66.0.9/login: 401",
            involvedObject=about,
            type="Warning",
            reason="ProvisioningFailed",
            source={"component": "disks.example.com_controller-7"},
            reportingComponent="disks.example.com",
            reportingInstance="controller-7",
        ),
        claim,
        CONTEXT,
    )
    text = json.dumps(translated.body)
    for hidden in ("10.66.0.9", "disks.example.com", "controller-7"):
        assert hidden not in text
    assert translated.body["reason"] == "ProvisioningFailed"


@pytest.mark.parametrize(
    ("kind", "type_", "internal"),
    [
        ("PersistentVolumeClaim", "Normal", True),
        ("PersistentVolumeClaim", "Warning", False),
        ("Pod", "Normal", False),
    ],
)
def test_steps_of_the_operators_provisioner_are_not_events_of_the_tenant(
    kind: str, type_: str, internal: bool
) -> None:
    assert volume_event.is_internal(kind, event(type=type_)) is internal


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ('MountVolume.SetUp failed for volume "settings" : configmap "settings" not found', True),
        ("Unable to attach or mount volumes: unmounted volumes=[data]: timed out", True),
        ("Pulled image", True),
        ('MountVolume.SetUp failed for volume "pvc-1" : mount -t nfs 10.66.0.9:/export failed', False),
        ('AttachVolume.Attach succeeded for volume "pvc-1" ', False),
    ],
)
def test_a_message_about_the_operators_volume_is_replaced(message: str, kept: bool) -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
    pod = Envelope("web", "shop", "v-uid", spec=json.dumps({"volumes": volumes}).encode())
    pod = replace(pod, spec=pod.spec.replace(b": ", b":"))
    assert (event_up(event(message), pod, CONTEXT).body["message"] == message) is kept


def test_messages_about_volumes_of_pods_without_claims_are_kept() -> None:
    message = 'MountVolume.SetUp failed for volume "kube-api-access-x" : not registered'
    assert event_up(event(message), POD, CONTEXT).body["message"] == message
