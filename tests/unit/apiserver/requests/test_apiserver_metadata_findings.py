"""Findings on metadata: finalizers and generations by kind, and repeated findings."""

import pytest

from vcsync.apimachinery.schema import builtin
from vcsync.apiserver.registry import repeated_findings

MERGE = {"Content_Type": "application/merge-patch+json"}
SHORT = "name is neither a standard finalizer name nor is it fully qualified"


def _resource(plural):
    return next(each for each in builtin.resources() if each.plural == plural)


@pytest.mark.parametrize(
    ("plural", "checked", "whole", "changes"),
    [
        ("configmaps", True, 1, 2),
        ("services", True, 0, 2),
        ("leases", False, 0, 2),
        ("runtimeclasses", False, 1, 2),
        ("persistentvolumes", True, 2, 1),
        ("volumeattributesclasses", True, 1, 2),
        ("limitranges", True, 1, 1),
        ("poddisruptionbudgets", False, 0, 1),
        ("validatingwebhookconfigurations", False, 1, 1),
    ],
)
def test_kinds_repeat_findings_on_metadata_as_upstream(plural, checked, whole, changes):
    resource = _resource(plural)
    assert repeated_findings.checks_finalizers(resource) is checked
    assert repeated_findings.times_whole(resource) == whole
    assert repeated_findings.times_changed(resource) == changes


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICE_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
LIMITS = "/api/v1/namespaces/default/limitranges"


@pytest.mark.parametrize(("path", "code"), [(LEASES, 201), (CONFIG_MAPS, 422)])
async def test_finalizers_without_a_domain_are_refused_where_upstream_does(api, path, code):
    assert (await api("POST", path, {"metadata": {"name": "a", "finalizers": ["x"]}})).status == code


@pytest.mark.parametrize(
    ("path", "patch", "causes"),
    [
        (CONFIG_MAPS, {"finalizers": ["x"]}, 2),
        (CONFIG_MAPS, {"uid": "x"}, 2),
        (CONFIG_MAPS, {"labels": {"x" * 64: "v"}}, 4),
        (SERVICE_ACCOUNTS, {"annotations": {"x" * 64: "v"}}, 4),
        (LEASES, {"labels": {"x" * 64: "v"}}, 3),
        (LIMITS, {"labels": {"x" * 64: "v"}}, 3),
        (LIMITS, {"finalizers": ["x"]}, 1),
        (LIMITS, {"uid": "x"}, 1),
    ],
)
async def test_findings_on_an_update_are_repeated_as_often_as_upstream(api, path, patch, causes):
    await api("POST", path, {"metadata": {"name": "a"}})
    response = await api("PATCH", f"{path}/a", {"metadata": patch}, **MERGE)
    assert response.status in (409, 422)
    assert len(response["details.causes"] or []) == causes


async def test_a_jobs_name_that_is_no_label_is_refused_in_its_template_only(api):
    """kube-apiserver gives a Job its own labels after validation."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    job = {"metadata": {"name": "x" * 70}, "spec": {"template": {"spec": pod}}}
    response = await api("POST", "/apis/batch/v1/namespaces/default/jobs", job)
    assert response.status == 422
    fields = {each["field"] for each in response["details.causes"]}
    assert "spec.template.labels" in fields
    assert "metadata.labels" not in fields


async def test_a_negative_generation_is_refused(api):
    response = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a", "generation": -1}})
    assert response.status == 422
    assert response["details.causes"][0]["field"] == "metadata.generation"


ENTRY = {
    "manager": "m",
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:holderIdentity": {}}},
    "time": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("api_version", "kept"),
    [("coordination.k8s.io/v1", True), ("coordination.k8s.io/v1beta1", True), ("v1", False)],
)
async def test_managers_in_unknown_versions_own_nothing(api, api_version, kept):
    await api("POST", LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    entries = [ENTRY | {"apiVersion": api_version}]
    response = await api("PATCH", f"{LEASES}/a", {"metadata": {"managedFields": entries}}, **MERGE)
    managers = {each["manager"] for each in response["metadata.managedFields"] or []}
    assert ("m" in managers) is kept


async def test_a_job_repeats_findings_on_metadata_after_those_of_its_labels(api):
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    made = await api("POST", jobs, {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert made.status == 201
    refused = await api("PATCH", f"{jobs}/a", {"metadata": {"uid": "x"}}, **MERGE)
    fields = [each["field"] for each in refused["details.causes"]]
    assert (fields[0], fields[-1]) == ("metadata.uid", "metadata.uid")
    assert "spec.selector" in fields[1:-1]
    assert "metadata.uid" not in fields[1:-1]
