"""Refused requests: code and message, and that nothing changes."""

from typing import Any

import pytest

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
NOT_REACHED = (
    "your Pods run in clusters of your operator, which logs, exec, attach and port-forward do not reach"
)
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
DRY = 'is invalid: dryRun: Unsupported value: ["x"]: supported values: "All"'


def scale(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, **spec},
    }


@pytest.fixture
async def filled(api: Any) -> Any:
    """A namespace with a Pod, a ConfigMap and a Deployment."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for path, body in (
        (f"{CORE}/pods", {**pod, "metadata": {"name": "p"}}),
        (f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": {"a": "b"}}),
        (
            APPS,
            {
                "metadata": {"name": "web"},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
            },
        ),
    ):
        assert (await api("POST", path, body)).status == 201
    return api


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code", "message"),
    [
        (
            "GET",
            f"{CORE}/pods/p?resourceVersion=99999999",
            None,
            {},
            504,
            "Timeout: Too large resource version: 99999999, current: ",
        ),
        (
            "GET",
            f"{CORE}/pods/p?resourceVersion=x",
            None,
            {},
            400,
            'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
        ),
        ("GET", f"{CORE}/pods/p/proxy", None, {}, 501, f"pods/proxy: {NOT_REACHED}"),
        ("GET", f"{CORE}/pods/p/exec", None, {}, 501, f"pods/exec: {NOT_REACHED}"),
        (
            "PUT",
            f"{APPS}/web/scale?dryRun=x",
            scale(),
            {},
            422,
            f'UpdateOptions.meta.k8s.io "" {DRY}',
        ),
        (
            "PATCH",
            f"{APPS}/web/scale?dryRun=x",
            {"spec": {"replicas": 1}},
            MERGE,
            422,
            f'PatchOptions.meta.k8s.io "" {DRY}',
        ),
        (
            "PATCH",
            f"{APPS}/web/scale?fieldManager=me",
            scale(x=1),
            APPLY,
            500,
            "failed to create typed patch object (/web; autoscaling/v1, Kind=Scale): .spec.x: field not declared in schema",
        ),
        (
            "POST",
            f"{CORE}/configmaps?fieldValidation=Strict",
            {"metadata": {"name": "b", "foo": 1}, "dat": {}},
            {},
            400,
            (
                'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field '
                '"metadata.foo", unknown field "dat"'
            ),
        ),
        (
            "PUT",
            f"{CORE}/configmaps/a",
            {"metadata": {"name": "a", "resourceVersion": "7000"}},
            {},
            409,
            f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}',
        ),
        (
            "PUT",
            f"{CORE}/configmaps/a",
            {"metadata": {"name": "a", "resourceVersion": "x"}},
            {},
            400,
            'strconv.ParseUint: parsing "x": invalid syntax',
        ),
        (
            "PATCH",
            f"{CORE}/configmaps/zz?fieldManager=m",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "zz"}, "dat": {}},
            APPLY,
            500,
            "failed to create typed patch object (/zz; /v1, Kind=ConfigMap): .dat: field not declared in schema",
        ),
        (
            "PATCH",
            f"{CORE}/configmaps/a?fieldValidation=Strict",
            {"data": {"q": 7}},
            MERGE,
            422,
            ' "" is invalid: patch: Invalid value: "{',
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/none",
            {"metadata": {"name": "other"}},
            {},
            400,
            "the name of the object (other) does not match the name on the URL (none)",
        ),
    ],
)
async def test_refused_requests_have_a_message_and_change_nothing(
    filled: Any, method: str, path: str, body: Any, headers: dict[str, str], code: int, message: str
) -> None:
    before = (await filled("GET", f"{CORE}/configmaps")).body["items"]
    refused = await filled(method, path, body, **headers)
    assert refused.status == code
    assert refused["message"].startswith(message)
    assert (await filled("GET", f"{CORE}/configmaps")).body["items"] == before


@pytest.mark.parametrize(
    ("method", "body", "headers"),
    [
        ("POST", {"metadata": {"name": "b", "foo": 1}, "dat": {"x": 1}}, {}),
        ("PATCH", {"metadata": {"foo": 1}, "dat": {"x": 1}}, MERGE),
    ],
)
@pytest.mark.parametrize("validation", ["Warn", "Ignore"])
async def test_unknown_fields_cause_warnings_if_requested(
    filled: Any, method: str, body: Any, headers: dict[str, str], validation: str
) -> None:
    path = f"{CORE}/configmaps" if method == "POST" else f"{CORE}/configmaps/a"
    done = await filled(method, f"{path}?fieldValidation={validation}", body, **headers)
    assert done.status in (200, 201)
    response = sorted(done.warnings)
    assert response == (
        ['unknown field "dat"', 'unknown field "metadata.foo"'] if validation == "Warn" else []
    )


async def test_the_resource_version_of_a_request_is_not_stored(filled: Any) -> None:
    made = await filled(
        "POST", f"{CORE}/configmaps?dryRun=All", {"metadata": {"name": "b", "resourceVersion": "7000"}}
    )
    assert made.status == 201
    assert "resourceVersion" not in made["metadata"]
    made = await filled("POST", f"{CORE}/configmaps", {"metadata": {"name": "b", "resourceVersion": "7000"}})
    assert made["metadata.resourceVersion"] not in ("", "7000")
    same = await filled("PUT", f"{CORE}/configmaps/b", made.body)
    assert same["metadata.resourceVersion"] == made["metadata.resourceVersion"], "nothing was to be written"
    changed = await filled("PUT", f"{CORE}/configmaps/b", {**made.body, "data": {"a": "b"}})
    assert int(changed["metadata.resourceVersion"]) > int(made["metadata.resourceVersion"])
    dry = await filled("PUT", f"{CORE}/configmaps/b?dryRun=All", {**changed.body, "data": {"a": "c"}})
    assert (dry.status, dry["data.a"]) == (200, "c")
    assert dry["metadata.resourceVersion"] == changed["metadata.resourceVersion"]
    assert (await filled("GET", f"{CORE}/configmaps/b"))["data"] == {"a": "b"}


async def test_a_namespace_is_deleted_with_its_last_finalizer(filled: Any) -> None:
    begun = await filled("DELETE", "/api/v1/namespaces/other")
    assert (begun.status, begun["status.phase"]) == (200, "Terminating")
    assert begun["spec.finalizers"] == ["kubernetes"]
    again = await filled("DELETE", "/api/v1/namespaces/other")
    assert again["metadata.deletionTimestamp"] == begun["metadata.deletionTimestamp"]
    kept = {"metadata": {"name": "other"}, "spec": {"finalizers": ["kubernetes", "example.org/more"]}}
    more = await filled("PUT", "/api/v1/namespaces/other/finalize", kept)
    assert (more.status, more["spec.finalizers"]) == (200, ["kubernetes", "example.org/more"])
    bare = {"metadata": {"name": "other"}, "spec": {"finalizers": []}}
    assert (await filled("PUT", "/api/v1/namespaces/other/finalize", bare)).status == 200
    assert (await filled("GET", "/api/v1/namespaces/other")).status == 404


async def test_a_token_request_returns_the_name_of_the_account(filled: Any) -> None:
    assert (await filled("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "s"}})).status == 201
    response = await filled("POST", f"{CORE}/serviceaccounts/s/token", {"spec": {"audiences": ["x"]}})
    assert response.status == 201
    assert (response["metadata.name"], response["metadata.namespace"]) == ("s", "default")
    assert response["metadata.creationTimestamp"]
    assert response["status.token"] == "a/default/s"
