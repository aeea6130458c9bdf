"""Special behaviour of single kinds: order of findings, fields that status writes keep, fields that are filled in."""

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.strategy import Context, User

NOW = Context("t", User("me"), "2026-01-01T00:00:00Z")


def done(**status):
    return {
        "metadata": {"name": "j"},
        "spec": {},
        "status": {"conditions": [{"type": "Complete", "status": "True"}], **status},
    }


def test_findings_on_a_jobs_status_come_in_the_order_of_the_real_servers_rules():
    old = {"metadata": {"name": "j"}, "spec": {}, "status": {}}
    found = BEHAVIOURS["batch", "Job"].status.validate(done(active=1, terminating=1, ready=2), old)
    assert [each.field for each in found] == [
        "status.completionTime",
        "status.conditions",
        "status.active",
        "status.startTime",
        "status.terminating",
        "status.ready",
    ]


def test_success_cannot_be_told_of_a_job_that_was_complete_without_it():
    new = done(startTime="2026-01-01T00:00:00Z", completionTime="2026-01-01T00:00:01Z")
    old = {**new, "status": dict(new["status"])}
    new["status"]["conditions"] = [
        *new["status"]["conditions"],
        {"type": "SuccessCriteriaMet", "status": "True"},
    ]
    told = [str(each) for each in BEHAVIOURS["batch", "Job"].status.validate(new, old)]
    assert told == [
        "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
    ]


def test_a_daemon_set_always_tells_the_generation_of_its_template():
    found = {"metadata": {"name": "d"}, "spec": {}}
    BEHAVIOURS["apps", "DaemonSet"].default(found)
    assert found["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "0"}


@pytest.mark.parametrize(("before", "after"), [({}, {}), ({"labels": {"a": "b"}}, {"labels": {"a": "b"}})])
def test_a_write_to_a_deployments_status_keeps_its_labels(before, after):
    new = {"metadata": {"labels": {"x": "y"}}}
    BEHAVIOURS["apps", "Deployment"].status.prepare(new, {"metadata": before}, NOW)
    assert new["metadata"] == after


@pytest.mark.parametrize(
    ("service", "reason"), [(None, "Local"), ({"name": "s", "namespace": "n"}, "NotForwarded")]
)
def test_an_api_service_says_at_once_whether_it_is_available(service, reason):
    found = {"metadata": {"name": "v1.a"}, "spec": {"service": service}}
    BEHAVIOURS["apiregistration.k8s.io", "APIService"].prepare_create(found, NOW)
    assert [each["reason"] for each in found["status"]["conditions"]] == [reason]


@pytest.mark.parametrize(
    ("name", "fits"),
    [("example.com/gpu", True), ("cpu", False), ("requests.a.b/c", False), ("not one", False)],
)
def test_a_device_class_stands_for_an_extended_resource(name, fits):
    found = {"metadata": {"name": "d"}, "spec": {"extendedResourceName": name}}
    told = [each.field for each in BEHAVIOURS["resource.k8s.io", "DeviceClass"].validate(found)]
    assert ("spec.extendedResourceName" not in told) == fits


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bm8=", "invalid character 'o' in literal null (expecting 'u')"),
        ("W10=", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("", "unexpected end of JSON input"),
    ],
)
def test_a_secret_for_registries_holds_json(text, told):
    kind = "kubernetes.io/dockerconfigjson"
    found = {"metadata": {"name": "s"}, "type": kind, "data": {".dockerconfigjson": text}}
    [finding] = BEHAVIOURS["", "Secret"].validate(found)
    assert finding.body.endswith(told)
