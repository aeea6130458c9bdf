"""A tenant that is registered gets the domain of the name server that vcsync has made for it before."""

import json

import pytest

from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.objects.envelope import Envelope, parse
from vcsync.registration import name_server
from vcsync.registration.name_server_domain import domain_of

OURS = {PART_OF: PROJECT}


def config(corefile: str, labels: dict[str, str]) -> Envelope:
    metadata = {"name": "coredns", "namespace": "kube-system", "labels": labels}
    return parse(json.dumps({"metadata": metadata, "data": {"Corefile": corefile}}).encode())


@pytest.mark.parametrize("domain", ["cluster.local", "acme.example.com", "local"])
def test_the_domain_of_our_own_configuration_is_found(domain: str) -> None:
    assert domain_of(config(name_server.corefile(domain), OURS)) == domain


def test_the_name_server_of_a_tenants_own_says_nothing() -> None:
    assert domain_of(config(name_server.corefile("cluster.local"), {})) == ""


@pytest.mark.parametrize(
    "corefile",
    [
        "",
        ".:53 {\n}\n",
        name_server.corefile("Not_A_Name"),
        name_server.corefile("-x"),
        name_server.corefile("a..b"),
        name_server.corefile(".".join(["a" * 63] * 4)),
        name_server.corefile("a" * 64),
    ],
)
def test_a_tenant_that_writes_no_valid_domain_can_still_be_registered(corefile: str) -> None:
    assert domain_of(config(corefile, OURS)) == ""


@pytest.mark.parametrize("rest", [{}, {"data": None}, {"data": {"Corefile": 3}}])
def test_a_configuration_without_text_says_nothing(rest: dict[str, object]) -> None:
    body = {"metadata": {"name": "coredns", "labels": OURS}, **rest}
    assert domain_of(parse(json.dumps(body).encode())) == ""
