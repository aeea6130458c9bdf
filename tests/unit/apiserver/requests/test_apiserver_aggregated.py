"""Groups that an APIService assigns to a Service: they are not served, and the answer says why."""

import pytest

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE = {"namespace": "kube-system", "name": "metrics-server"}
NAME = "v1beta1.metrics.example.com"
REASON = (
    f"APIService {NAME} is not available: "
    "this control plane does not forward requests to Services: its operator allows none"
)
PATHS = [
    "/apis/metrics.example.com/v1beta1",
    "/apis/metrics.example.com/v1beta1/nodes",
    "/apis/metrics.example.com/v1beta1/namespaces/default/pods/a",
]


def api_service(**spec):
    known = {
        "group": "metrics.example.com",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    return {"metadata": {"name": NAME}, "spec": {**known, **spec}}


@pytest.mark.parametrize("path", PATHS)
async def test_requests_for_the_group_get_503_with_the_reason(api, path):
    assert (await api("GET", path)).status == 404
    made = await api("POST", API_SERVICES, api_service(service=SERVICE, insecureSkipTLSVerify=True))
    assert made.status == 201, made.body
    assert made.warnings == [REASON.removeprefix("APIService ")]
    found = await api("GET", path)
    assert (found.status, found["message"]) == (503, REASON)


@pytest.mark.parametrize(
    "path",
    [
        "/apis/metrics.example.com/v1",
        "/apis/other.example.com/v1beta1/nodes",
        "/apis/metrics.example.com",
        "/openapi/v3/apis/metrics.example.com/v1beta1",
    ],
)
async def test_other_unknown_paths_stay_404(api, path):
    await api("POST", API_SERVICES, api_service(service=SERVICE, insecureSkipTLSVerify=True))
    assert (await api("GET", path)).status == 404


async def test_a_local_api_service_changes_nothing(api):
    await api("POST", API_SERVICES, api_service())
    assert (await api("GET", PATHS[0])).status == 404
