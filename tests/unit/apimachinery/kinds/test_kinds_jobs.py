"""Jobs: their selectors."""

import pytest

from vcsync.apimachinery.kinds.batch import job

UID = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}
NAME = {"job-name": "j", "batch.kubernetes.io/job-name": "j"}
POD = {
    "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}],
    "restartPolicy": "Never",
    "dnsPolicy": "ClusterFirst",
}  # fmt: skip


@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"job-name": "j"}}, []),
        (
            {"matchExpressions": [{"key": "a", "operator": "Odd"}]},
            ["spec.selector.matchExpressions[0].operator"],
        ),
        ({"matchLabels": {"a": "b c"}}, ["spec.selector.matchLabels"]),
        ({"matchLabels": {"job-name": "k"}}, ["spec.selector", "spec.template.metadata.labels"]),
        (None, ["spec.selector", "spec.template.metadata.labels"]),
    ],
)
def test_only_a_selector_that_can_be_read_is_compared_with_the_labels(manual, selector, expected):
    template = {"metadata": {"labels": {**UID, **NAME}}, "spec": POD}
    spec = {"manualSelector": manual, "selector": selector, "template": template}
    found = [each.field for each in job.job({"metadata": {"name": "j", "uid": "u"}, "spec": spec})]
    assert found == (expected[1:] if manual and selector and len(expected) > 1 else expected)
