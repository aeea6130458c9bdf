"""Malformed requests are client errors, and accepted objects can be read under their name."""

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hack.fuzz.aware import PARAMETERS
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.validation.names import MAX_ESCAPED
from vcsync.apimachinery.wire.values import BadValue, duration_of
from vcsync.apiserver.request.request_info import MAX_PATH, parse_path

BASE = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FREELY_NAMED = {
    "clusterroles": {"rules": []},
    "clusterrolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}},
    "namespaces/default/roles": {"rules": []},
    "namespaces/default/rolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}},
}  # fmt: skip
"""Kinds whose names may be any text that a path can hold."""
VALUES = (
    "", "-1", "0", "x", "1.5", "+1", " 1", "0x1", "1e3", "9" * 19, "9" * 30, "9" * 5000, "-" + "9" * 5000, "\u00b2",
    "\u0665", "%00", "%ff", "true", "null", "NaN", "inf",
    "\u2028", "1,2", "1s", "9" * 5000 + "s", "0." + "9" * 5000 + "s", "99999999h", "-1s",
)  # fmt: skip
"""Of parameters, of which most are to be numbers."""
MORE = (
    "ports",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "container",
    "command",
    "stdin",
    "preconditions",
)


@pytest.mark.parametrize("parameter", [*(each for each in PARAMETERS if each.isalpha()), *MORE])
async def test_no_value_of_a_parameter_causes_an_internal_error(api, config_map, parameter):
    await api("POST", BASE, config_map("one"))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api("POST", "/api/v1/namespaces/default/pods", pod)
    merge = {"Content_Type": "application/merge-patch+json"}
    # A version that is not yet would be waited for.
    for value in (each for each in VALUES if parameter != "resourceVersion" or each != "9" * 19):
        query = f"{parameter}={value if value.startswith('%') else quote(value)}"
        for method, path, body, headers in (
            ("GET", f"{BASE}?{query}", None, {}),
            ("GET", f"{BASE}?watch=1&timeoutSeconds=1&{query}", None, {}),
            ("GET", f"{BASE}/one?{query}", None, {}),
            ("POST", f"{BASE}?{query}", {"metadata": {"generateName": "g-"}}, {}),
            ("PUT", f"{BASE}/one?{query}", {"metadata": {"name": "one"}}, {}),
            ("PATCH", f"{BASE}/one?{query}", {}, merge),
            ("DELETE", f"{BASE}/none?{query}", None, {}),
            ("DELETE", f"{BASE}?labelSelector=no%3Dno&{query}", None, {}),
            ("GET", f"/api/v1/namespaces/default/pods/p/log?{query}", None, {}),
            ("POST", f"/api/v1/namespaces/default/pods/p/portforward?{query}", None, {}),
            ("POST", f"/api/v1/namespaces/default/pods/p/exec?{query}", None, {}),
        ):
            if ("watch=1" in path or parameter == "watch") and await refused_watch(api, path) < 500:
                continue
            response = await api(method, path, body, **headers)
            # 501: there are no kubelets here; 504: a version that is not yet.
            assert response.status < 500 or response.status in (501, 504), (
                f"{method} {path[:200]}: {response.body}"
            )


async def refused_watch(api, path: str) -> int:
    """Open a watch, if it opens, and close it."""
    answer, _ = await api._go("GET", path, None, {})
    if hasattr(answer, "pieces"):
        await answer.pieces.aclose()
        return 200
    return answer.status if answer.status != 504 else 200


@pytest.mark.parametrize("plural", FREELY_NAMED)
@pytest.mark.parametrize(
    "name",
    ["a\0b", "\0", "a\0", "x" * (MAX_ESCAPED + 1), "\u00e9" * 1000, ".", "..", "a/b", "a%00"],
)
async def test_names_that_cannot_be_in_a_path_are_refused(api, plural, name):
    body = {"metadata": {"name": name}, **FREELY_NAMED[plural]}
    response = await api("POST", f"{RBAC}/{plural}", body)
    assert (response.status, response["details.causes.0.field"]) == (422, "metadata.name")
    body["metadata"] = {"generateName": name}
    if name not in (".", ".."):  # what is made of these is neither
        response = await api("POST", f"{RBAC}/{plural}", body)
        assert (response.status, response["details.causes.0.field"]) == (422, "metadata.generateName")


@given(
    name=st.text(min_size=1, max_size=40)
    | st.text(min_size=1, max_size=3, alphabet="\0\n\r\t .%/?#;\\~*\x7f\u2028\uffff\U0010ffff")
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_accepted_name_can_be_read_and_deleted(api, name):
    response = await api("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": []})
    assert response.status in (201, 422)
    if response.status == 201:
        path = f"{RBAC}/clusterroles/{quote(name, safe='')}"
        assert (await api("GET", path))["metadata.name"] == name
        assert (await api("DELETE", path)).status == 200
        assert (await api("GET", path)).status == 404


def test_the_longest_name_of_the_longest_path_is_not_too_long():
    name = "\u00e9" * (MAX_ESCAPED // 6)
    tenant = namespace = "x" * 63
    path = f"/tenants/{tenant}{RBAC}/namespaces/{namespace}/rolebindings/{quote(name)}"
    assert parse_path(path).endswith(name)
    assert len(path) < MAX_PATH


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/tenants//configmaps", 404),
        ("/api/v1/tenants//namespaces/default/configmaps", 404),
        ("/apis/apps/v1/tenants//deployments", 404),
        ("/api/v1/watch/tenants//configmaps", 404),
        ("/tenants//api/v1/configmaps", 404),
        ("/tenants//", 404),
        ("//api/v1/configmaps", 404),
        ("///api/v1/configmaps", 404),
        ("/tenants/a//api/v1/configmaps", 404),
        ("/api//v1/configmaps", 404),
        ("/api/v1//configmaps", 404),
        ("/api/v1/namespaces/default//configmaps", 404),
        (f"{BASE}//one", 404),
        (f"{BASE}/one//status", 404),
        (f"{BASE}/one//x", 404),
        ("/api/v1/namespaces/default/pods//log", 400),
        (f"{BASE}/%zz", 400),
        (f"{BASE}/%", 400),
        (f"{BASE}/%4", 400),
        (f"{BASE}/a%00", 400),
        (f"{BASE}%2Fone", 400),
        ("/tenants/a%2Fapi/v1/configmaps", 400),
    ],
)
async def test_paths_with_empty_or_malformed_parts_are_not_found(api, config_map, path, status):
    await api("POST", BASE, config_map("one"))
    assert (await api("GET", path)).status == status


async def test_a_subresource_without_a_name_is_refused(api):
    body = {"spec": {}}
    response = await api("POST", "/api/v1/namespaces/default/serviceaccounts//token", body)
    assert (response.status, response["message"]) == (400, "name must be provided")


@pytest.mark.parametrize("version", ["x", "-1", "9" * 5000, "\u0665", "1.5"])
async def test_a_resource_version_in_a_body_must_be_a_number(api, config_map, version):
    await api("POST", BASE, config_map("one"))
    body = {"metadata": {"name": "one", "resourceVersion": version}}
    response = await api("PUT", f"{BASE}/one", body)
    assert (response.status, response["reason"]) == (400, "BadRequest")


@given(
    st.text(max_size=30, alphabet="0123456789.-+hmsnuµ")
    | st.from_regex(r"[0-9]{4000,5000}(\.[0-9]{1,5000})?[hms]", fullmatch=True)
)
@settings(deadline=None)
def test_any_text_is_parsed_as_a_duration_or_refused(text):
    with suppress(BadValue):
        assert abs(duration_of(text)) < 2**63


@given(st.text(max_size=60))
def test_any_path_is_parsed_or_refused(text):
    with suppress(StatusError):
        assert "\0" not in parse_path(text)
