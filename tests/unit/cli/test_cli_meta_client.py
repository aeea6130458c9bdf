"""The connection to the meta cluster: what happens with another cluster's kubeconfig."""

from pathlib import Path

import pytest

from vcsync.apiserver.operator.kubeconfig import kubeconfig, tenant_of
from vcsync.cli.command.common import meta_client
from vcsync.cli.command.errors import WrongInputError
from vcsync.kube.errors import ApiError, NotFound, api_error

KINDS = "GET /apis/tenancy.x-k8s.io/v1alpha1/superclusters"


def issued(tenant: str) -> bytes:
    """Return a kubeconfig of an embedded tenant."""
    return kubeconfig(tenant=tenant, url="https://127.0.0.1:1", server_authority="x", user="admin", pair=None)


def missing() -> ApiError:
    """Return the answer of a server without our kinds."""
    return api_error(404, b"404 page not found", endpoint="meta", request=KINDS)


@pytest.mark.parametrize(
    ("content", "tenant"),
    [
        (issued("acme"), "acme"),
        (b"contexts: [{name: a, context: {}}]\ncurrent-context: a", None),
        (b"contexts: [{name: a}]\ncurrent-context: b", None),
        (b"contexts: 1", None),
        (b"[]", None),
        (b"", None),
        (b"{", None),
    ],
)
def test_the_tenant_of_a_kubeconfig_is_that_of_its_current_context(
    content: bytes, tenant: str | None
) -> None:
    assert tenant_of(content) == tenant


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_tenants_kubeconfig_is_named_when_it_is_mistaken_for_the_meta_clusters(
    tmp_path: Path, grouped: bool
) -> None:
    path = tmp_path / "acme.kubeconfig"
    path.write_bytes(issued("acme"))
    error = ExceptionGroup("tasks", [missing()]) if grouped else missing()
    with pytest.raises(
        WrongInputError, match=r"acme.kubeconfig is the kubeconfig of tenant acme.*\$VCSYNC_META"
    ):
        async with meta_client(str(path)):
            raise error


async def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "acme.kubeconfig"
    path.write_bytes(issued("acme"))
    absent = b'{"kind": "Status", "code": 404, "message": "no r1", "details": {"name": "r1"}}'
    with pytest.raises(NotFound, match="no r1"):
        async with meta_client(str(path)):
            raise api_error(404, absent, endpoint="meta", request=f"{KINDS}/r1")
