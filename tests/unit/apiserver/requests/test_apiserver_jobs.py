"""Labels that a Job gets from its template and from the server, whatever request creates it."""

from typing import Any

import msgspec
import pytest

JOBS = "/apis/batch/v1/namespaces/default/jobs"
GENERATED = {
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
}


def job(labels: dict[str, str] | None, template: dict[str, str] | None) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    made: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "count"}}
    if labels is not None:
        made["metadata"]["labels"] = labels
    inner: dict[str, Any] = {} if template is None else {"labels": template}
    return {**made, "spec": {"template": {"metadata": inner, "spec": spec}}}


async def create(api: Any, form: str, body: dict[str, Any]) -> Any:
    if form == "POST":
        return await api("POST", JOBS, body)
    apply = "application/apply-patch+yaml"
    return await api("PATCH", f"{JOBS}/count?fieldManager=me", msgspec.json.encode(body), Content_Type=apply)


@pytest.mark.parametrize("form", ["POST", "apply"])
@pytest.mark.parametrize(
    ("labels", "template", "wanted"),
    [
        (None, {"app": "count"}, {"app", *GENERATED}),
        ({}, {"app": "count"}, {"app", *GENERATED}),
        (None, None, GENERATED),
        ({"app": "count"}, {"app": "count"}, {"app"}),
        ({"own": "x"}, {"app": "count"}, {"own"}),
        ({"own": "x"}, None, {"own"}),
    ],
)
async def test_a_job_without_labels_gets_those_of_its_template_and_the_generated_ones(
    api, form, labels, template, wanted
):
    made = await create(api, form, job(labels, template))
    assert made.status == 201, made.body
    assert set(made["metadata.labels"]) == wanted
    assert set(made["spec.template.metadata.labels"]) == GENERATED | set(template or {})
    found = await api("GET", f"{JOBS}?labelSelector=job-name=count")
    assert len(found.body["items"]) == (wanted >= GENERATED)
