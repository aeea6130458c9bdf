"""Clients of one tenant, or of all tenants, made of a client of Kubernetes' Python libraries."""

from typing import Any

import kubernetes
import kubernetes_asyncio
import pytest

from vcsync.apimachinery.tenant_marks import ANNOTATION
from vcsync.client import ALL_REACHABLE, ALL_TENANTS, ALL_WITH_EXTERNAL, for_tenant, tenant_of

LIBRARIES = pytest.mark.parametrize("library", [kubernetes, kubernetes_asyncio])


@LIBRARIES
@pytest.mark.parametrize("tenant", ["acme", ALL_TENANTS, ALL_WITH_EXTERNAL, ALL_REACHABLE])
async def test_a_client_for_a_tenant_shares_connections(library: Any, tenant: str) -> None:
    client = library.client.ApiClient(library.client.Configuration(host="https://plane:6443/"))
    view = for_tenant(client, tenant)
    assert isinstance(view, library.client.ApiClient)
    assert view.configuration.host == f"https://plane:6443/tenants/{tenant}"
    assert view.rest_client is client.rest_client
    assert client.configuration.host == "https://plane:6443/"
    closing = client.close()
    if closing is not None:
        await closing


@pytest.mark.parametrize("tenant", ["", "a/b", "..", "A", "a+b", "a b", "a%2fb"])
def test_a_wrong_name_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="is no tenant name"):
        for_tenant(Client("https://plane"), tenant)


def test_the_client_of_a_tenant_is_not_made_one_of_another() -> None:
    with pytest.raises(ValueError, match="names a tenant: https://plane/tenants/acme"):
        for_tenant(for_tenant(Client("https://plane"), "acme"), "umbrella")


class Client:
    """Methods that the clients of both libraries have."""

    def __init__(self, host: str) -> None:
        self.configuration = kubernetes.client.Configuration(host=host)


@LIBRARIES
def test_the_tenant_of_a_model(library: Any) -> None:
    metadata = library.client.V1ObjectMeta(annotations={ANNOTATION: "acme"})
    assert tenant_of(library.client.V1Pod(metadata=metadata)) == "acme"
    with pytest.raises(ValueError, match="names no tenant"):
        tenant_of(library.client.V1Pod(metadata=library.client.V1ObjectMeta()))


@pytest.mark.parametrize("metadata", [{"tenant": "acme"}, {"annotations": {ANNOTATION: "acme"}}])
def test_the_tenant_of_a_mapping(metadata: dict[str, Any]) -> None:
    assert tenant_of({"metadata": metadata}) == "acme"


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"annotations": None}}])
def test_a_mapping_without_a_tenant(obj: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="names no tenant"):
        tenant_of(obj)
