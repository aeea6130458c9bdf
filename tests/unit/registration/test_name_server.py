"""The manifests of a tenant's name server fit what super clusters allow tenants."""

from typing import Any

import pytest

from vcsync.api.specs import PodPolicy
from vcsync.objects.quantity import milli
from vcsync.registration import name_server
from vcsync.registration.manifests import resource_of
from vcsync.registration.name_server import NameServer
from vcsync.syncer.kinds.pod_policy import refusals

WANTED = NameServer(image="registry.example.com/coredns:v1", domain="acme.local", replicas=3)


def of_kind(kind: str, wanted: NameServer = WANTED) -> dict[str, Any]:
    [found] = [each for each in name_server.manifests(wanted) if each["kind"] == kind]
    return found


def pod_spec() -> dict[str, Any]:
    spec: dict[str, Any] = of_kind("Deployment")["spec"]["template"]["spec"]
    return spec


def test_every_object_can_be_applied_and_is_marked() -> None:
    for each in (*name_server.manifests(WANTED), name_server.quota(WANTED)):
        assert resource_of(each).kind == each["kind"]
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "vcsync"


def test_the_choices_of_the_operator_are_used() -> None:
    assert of_kind("Deployment")["spec"]["replicas"] == 3
    assert pod_spec()["containers"][0]["image"] == "registry.example.com/coredns:v1"
    assert "kubernetes acme.local in-addr.arpa ip6.arpa {" in of_kind("ConfigMap")["data"]["Corefile"]


def test_the_default_policy_for_pods_accepts_it() -> None:
    assert list(refusals(pod_spec(), PodPolicy())) == []


def test_it_may_read_what_it_answers_from_and_change_nothing() -> None:
    [role] = [each for each in name_server.access() if each["kind"] == "ClusterRole"]
    allowed = {
        (plural, verb) for rule in role["rules"] for plural in rule["resources"] for verb in rule["verbs"]
    }
    assert allowed == {
        (plural, verb)
        for plural in ("services", "namespaces", "endpointslices")
        for verb in ("list", "watch")
    }


def test_the_service_leads_to_the_ports_of_the_pods() -> None:
    service, [container] = of_kind("Service"), pod_spec()["containers"]
    assert service["metadata"]["name"] == "kube-dns"
    assert {each["targetPort"] for each in service["spec"]["ports"]} == {
        each["name"] for each in container["ports"]
    }
    template = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= template.items()
    assert ".:1053 {" in of_kind("ConfigMap")["data"]["Corefile"]
    assert {each["containerPort"] for each in container["ports"]} == {1053, 9153}


@pytest.mark.parametrize("replicas", [1, 2, 10])
def test_the_quota_has_room_for_all_pods_and_one_more_during_an_update(replicas: int) -> None:
    wanted = NameServer(replicas=replicas)
    [container] = of_kind("Deployment", wanted)["spec"]["template"]["spec"]["containers"]
    hard = name_server.quota(wanted)["spec"]["hard"]
    for resource, amount in container["resources"]["requests"].items():
        assert milli(hard[resource]) == milli(amount) * (replicas + 1)
        assert name_server.slice_size()[resource] == amount
