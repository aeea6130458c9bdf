"""The placement webhook as `vcsync tenant add | renew | remove` make it: token, certificate, configuration."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.registration import placement_webhook as command
from vcsync.cli.run.commands import tuning_of
from vcsync.cli.tenant import leave
from vcsync.kube.resources import SECRETS

ROOT = "root-acme"
ADDRESS = "pods.pool.example:9443"


class Clusters:
    """A meta cluster, and the control plane of a tenant."""

    def __init__(self) -> None:
        self.meta, self.tenant = MemoryCluster("meta"), MemoryCluster("tenant")

    async def install(self, address: str = ADDRESS, root: str = ROOT) -> None:
        await command.install(self.meta, self.tenant, root, address)  # type: ignore[arg-type]

    def secret(self, name: str, namespace: str) -> dict[str, str]:
        found = self.meta.found(SECRETS, name, namespace)
        assert found is not None, name
        return {key: base64.b64decode(text).decode() for key, text in found["data"].items()}

    def kept(self, root: str = ROOT) -> dict[str, str]:
        return self.secret(names.PLACEMENT_SECRET, root)

    def tls(self, name: str = names.PLACEMENT_TLS_SECRET) -> dict[str, str]:
        return self.secret(name, names.SYSTEM_NAMESPACE)

    def configuration(self) -> dict[str, Any] | None:
        return self.tenant.found(MUTATING_WEBHOOK_CONFIGURATIONS, names.PLACEMENT_WEBHOOK)

    def webhook(self) -> dict[str, Any]:
        found = self.configuration()
        assert found is not None
        [webhook] = found["webhooks"]
        return dict(webhook)


@pytest.fixture
def clusters() -> Clusters:
    return Clusters()


async def test_a_control_plane_asks_with_the_token_that_the_scheduler_reads(clusters):
    await clusters.install()
    kept, webhook = clusters.kept(), clusters.webhook()
    assert len(kept["token"]) >= 32
    assert webhook["clientConfig"]["url"] == f"https://{ADDRESS}/placement/{kept['token']}"
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["reinvocationPolicy"]) == (
        "Ignore",
        1,
        "Never",
    )
    assert webhook["sideEffects"] == "NoneOnDryRun"
    assert not {"namespaceSelector", "objectSelector", "matchConditions"} & webhook.keys()
    [rule] = webhook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])


async def test_the_tenant_trusts_the_authority_and_never_gets_a_key(clusters):
    await clusters.install()
    authority = x509.load_pem_x509_certificate(
        base64.b64decode(clusters.webhook()["clientConfig"]["caBundle"])
    )
    serving = x509.load_pem_x509_certificate(clusters.tls()["tls.crt"].encode())
    serving.verify_directly_issued_by(authority)
    assert "PRIVATE KEY" not in str(clusters.tenant.objects)
    assert clusters.tls(names.PLACEMENT_CA_SECRET)["tls.key"] not in str(clusters.kept())
    assert "tls.key" in clusters.tls(), "the scheduler's own"


@pytest.mark.parametrize("second", ["10.0.0.7:9443", "[fd00::1]:9443", "other.example:1"])
async def test_tenants_that_use_other_addresses_trust_the_same_authority(clusters, second):
    await clusters.install()
    bundle = clusters.webhook()["clientConfig"]["caBundle"]
    address = command.parse_placement(second)
    await clusters.install(address, "root-umbrella")
    assert clusters.webhook()["clientConfig"]["caBundle"] == bundle
    hosts = command.hosts_of(clusters.tls()["tls.crt"].encode())
    assert hosts == ["pods.pool.example", second.rpartition(":")[0].strip("[]")]
    before = clusters.tls()
    await clusters.install(address, "root-umbrella")
    assert clusters.tls() == before, "a certificate that is valid for the host stays"


async def test_renewal_replaces_the_token_and_keeps_the_address(clusters):
    await clusters.install()
    former = clusters.kept()["token"]
    address = await command.installed(clusters.meta, ROOT)
    assert address == ADDRESS
    await clusters.install(address)
    assert clusters.kept()["token"] != former
    assert clusters.kept()["token"] in clusters.webhook()["clientConfig"]["url"]


async def test_removal_leaves_nothing_of_the_tenant(clusters):
    await clusters.install()
    for _ in range(2):
        await command.uninstall(clusters.meta, clusters.tenant, ROOT)
    assert clusters.configuration() is None
    assert await command.installed(clusters.meta, ROOT) is None
    assert clusters.tls(), "other tenants use it"


@pytest.mark.parametrize("text", ["", "no address", "host:0", "host:99999", "https://host:1", "fd00::1:1"])
def test_a_malformed_address_is_refused_with_its_form(text):
    with pytest.raises(WrongInputError, match=r"--placement-webhook .*HOST:PORT"):
        command.parse_placement(text)


def test_the_hosts_of_a_certificate_are_read_from_it():
    pair = issue_serving(new_authority("a", time.time()), ["a.example", "10.0.0.1"], time.time())
    assert command.hosts_of(pair.certificate.encode()) == ["a.example", "10.0.0.1"]
    assert command.hosts_of(b"") == []
    assert command.parse_placement(None) is None


VC = SimpleNamespace(name="acme", namespace="vcsync", annotations={})


@pytest.fixture
def leaving(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """The tenant is about to be removed."""

    async def find(*_: Any) -> Any:
        return VC

    async def uid(_: Any) -> str:
        return "uid"

    @asynccontextmanager
    async def admin_client(*_: Any) -> AsyncIterator[MemoryCluster]:
        yield clusters.tenant

    for name, value in {
        "find": find,
        "cluster_key": lambda _vc: ROOT,
        "cluster_uid": uid,
        "recorded_uid": lambda _vc: "uid",
        "admin_client": admin_client,
    }.items():
        monkeypatch.setattr(leave, name, value)
    return clusters


async def test_a_removal_with_the_kubeconfig_removes_the_webhook(leaving):
    await leaving.install()
    await leave._end_placement(leaving.meta, "acme", SimpleNamespace(path="x"))
    assert leaving.configuration() is None


async def test_a_removal_without_it_names_the_command(leaving, capsys):
    await leave._end_placement(leaving.meta, "acme", None)
    assert capsys.readouterr().out == ""
    await leaving.install()
    await leave._end_placement(leaving.meta, "acme", None)
    assert "kubectl delete mutatingwebhookconfiguration vcsync-placement" in capsys.readouterr().out
    assert leaving.configuration() is not None


async def test_a_removal_changes_no_other_control_plane(leaving, monkeypatch):
    await leaving.install()
    monkeypatch.setattr(leave, "recorded_uid", lambda _vc: "another")
    with pytest.raises(FailedError, match="nothing was removed"):
        await leave._end_placement(leaving.meta, "acme", SimpleNamespace(path="x"))
    assert leaving.configuration() is not None


@pytest.mark.parametrize("text", ["pods.example", "10.0.0.7:9443", "10.0.0", "fd00::1%eth0/64"])
def test_the_endpoint_of_the_service_is_an_address(text: str) -> None:
    given = {"placement_webhook_listen": "0.0.0.0:9443", "placement_webhook_endpoint": text}
    with pytest.raises(WrongInputError, match=r"--placement-webhook-endpoint .*IP address"):
        tuning_of(given)


def test_an_endpoint_needs_a_port_to_listen_on() -> None:
    with pytest.raises(WrongInputError, match="--placement-webhook-listen"):
        tuning_of({"placement_webhook_endpoint": "10.0.0.7"})
    given = {"placement_webhook_listen": "0.0.0.0:9443", "placement_webhook_endpoint": "fd00:0::7"}
    assert tuning_of(given).placement_endpoint == "fd00::7"
