"""Paths of resources. No name leads to the path of another object."""

import pytest

from vcsync.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, Resource


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "a"}, "/api/v1/namespaces/a/pods"),
        (
            PODS,
            {"namespace": "a", "name": "p", "subresource": "status"},
            "/api/v1/namespaces/a/pods/p/status",
        ),
        (NAMESPACES, {"name": "a"}, "/api/v1/namespaces/a"),
        (
            DEPLOYMENTS,
            {"namespace": "a", "name": "d/e%?"},
            "/apis/apps/v1/namespaces/a/deployments/d%2Fe%25%3F",
        ),
    ],
)
def test_paths(resource: Resource, where: dict[str, str], path: str) -> None:
    assert resource.path(**where) == path


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        (PODS, {"name": "p"}),
        (NAMESPACES, {"namespace": "a"}),
        (PODS, {"namespace": "..", "name": "p"}),
        (PODS, {"namespace": "a", "name": "."}),
        (PODS, {"namespace": "a", "subresource": "status"}),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(resource: Resource, where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"need|not"):
        resource.path(**where)


def test_the_api_version_contains_the_group_unless_it_is_core() -> None:
    assert (PODS.api_version, DEPLOYMENTS.api_version) == ("v1", "apps/v1")
