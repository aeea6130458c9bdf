"""Admin access to devices, which needs a label on the namespace."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.admin_access import LABEL, admin_access

CLAIM, TEMPLATE = ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates")
TOLD = f"Forbidden: admin access to devices requires the `{LABEL}: true` label on the containing namespace"


def asking(value):
    return {"devices": {"requests": [{"exactly": {}}, {"exactly": {"adminAccess": value}}]}}


def given(value):
    return {"allocation": {"devices": {"results": [{"adminAccess": value}]}}}


REQUESTS = [
    (CLAIM, {"spec": asking(True)}, {}, "spec.devices.requests[1].adminAccess"),
    (TEMPLATE, {"spec": {"spec": asking(True)}}, {}, "spec.devices.requests[1].adminAccess"),
    (
        CLAIM,
        {"status": given(True)},
        {"subresource": "status", "old": {"metadata": {"name": "c"}}},
        "status.allocation.devices.results[0].adminAccess",
    ),
]


@pytest.mark.parametrize(("resource", "content", "how", "path"), REQUESTS)
@pytest.mark.parametrize("labels", [None, {}, {LABEL: "false"}, {LABEL: ""}])
async def test_admin_access_needs_the_label_on_the_namespace(
    admit, things, resource, content, how, path, labels
):
    things.add("", "namespaces", "n", metadata={"labels": labels})
    with pytest.raises(StatusError) as caught:
        await admit(admin_access, {"metadata": {"name": "c"}, **content}, of=resource, **how)
    assert caught.value.code == 422
    assert caught.value.message.endswith(f"{path}: {TOLD}")


@pytest.mark.parametrize(("resource", "content", "how", "path"), REQUESTS)
async def test_admin_access_is_allowed_with_the_label(admit, things, resource, content, how, path):
    things.add("", "namespaces", "n", metadata={"labels": {LABEL: "true"}})
    await admit(admin_access, {"metadata": {"name": "c"}, **content}, of=resource, **how)


@pytest.mark.parametrize(
    ("resource", "content", "how"),
    [
        (CLAIM, {"spec": asking(False)}, {}),
        (CLAIM, {"spec": {"devices": {"requests": [{"firstAvailable": [{"name": "a"}]}]}}}, {}),
        (CLAIM, {"spec": {}}, {}),
        (CLAIM, {"spec": asking(True)}, {"old": {"metadata": {"name": "c"}}}),
        (
            CLAIM,
            {"status": given(True)},
            {"subresource": "status", "old": {"metadata": {}, "status": given(True)}},
        ),
        (CLAIM, {"status": given(False)}, {"subresource": "status", "old": {"metadata": {}}}),
        (("", "pods"), {"spec": asking(True)}, {}),
    ],
)
async def test_requests_without_admin_access_need_no_label(admit, resource, content, how):
    await admit(admin_access, {"metadata": {"name": "c"}, **content}, of=resource, **how)
