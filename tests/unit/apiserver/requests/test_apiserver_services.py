"""Services with many node ports, and namespaces with many quotas."""

from typing import Any

import pytest

from vcsync.apiserver.registry import storage_limit

PLACE = "/api/v1/namespaces/default/services"


def balanced(name: str, ports: int) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 1 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": listed}}


async def test_services_with_many_ports_use_up_the_whole_range(api) -> None:
    """Of a hundred drawn at random some were taken each time: the range was said to be full with a tenth of it given."""
    given: set[int] = set()
    for number in range(27):
        made = await api("POST", PLACE, balanced(f"s{number}", 100))
        assert made.status == 201, made.body
        given |= {each["nodePort"] for each in made.body["spec"]["ports"]}
    assert len(given) == 2700
    refused = await api("POST", PLACE, balanced("last", 100))
    assert refused.status == 500
    assert "range is full" in refused.body["message"]


@pytest.mark.parametrize("ports", [125, 126, 127, 128, 140, 1000])
async def test_a_service_can_have_as_many_ports_as_the_range(api, ports: int) -> None:
    made = await api("POST", PLACE, balanced("wide", ports))
    assert made.status == 201, made.body
    given = {each["nodePort"] for each in made.body["spec"]["ports"]}
    assert len(given) == ports
    patch = {"spec": {**balanced("", ports)["spec"], "type": "ClusterIP"}}
    for port in patch["spec"]["ports"]:
        port["nodePort"] = None
    merge = {"Content_Type": "application/merge-patch+json"}
    changed = await api("PATCH", f"{PLACE}/wide", patch, **merge)
    assert changed.status == 200, changed.body
    assert (await api("PATCH", f"{PLACE}/wide", {"spec": {"type": "NodePort"}}, **merge)).status == 200
    assert (await api("DELETE", f"{PLACE}/wide")).status == 200
    assert (await api("POST", PLACE, balanced("again", 2700))).status == 201


@pytest.mark.parametrize(("quotas", "status"), [(100, 201), (126, 201), (140, 413)])
async def test_a_namespace_with_many_quotas(
    api, quotas: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_limit, "NAMESPACE_LIMITS", {})  # quotas from before there was a limit
    place, hard = "/api/v1/namespaces/default", {"count/configmaps": "10"}
    for number in range(quotas):
        quota = {"metadata": {"name": f"q{number}"}, "spec": {"hard": hard}}
        assert (await api("POST", f"{place}/resourcequotas", quota)).status == 201
        exhausted = {"status": {"hard": hard, "used": {"count/configmaps": "0"}}}
        merge = {"Content_Type": "application/merge-patch+json"}
        assert (
            await api("PATCH", f"{place}/resourcequotas/q{number}/status", exhausted, **merge)
        ).status == 200
    made = await api("POST", f"{place}/configmaps", {"metadata": {"name": "one"}})
    assert made.status == status, made.body
    if status == 413:
        assert "fewer ResourceQuotas" in made["message"]
        assert (await api("GET", f"{place}/configmaps/one")).status == 404
    last = await api("GET", f"{place}/resourcequotas/q{quotas - 1}")
    assert last.body["status"]["used"] == {"count/configmaps": "1" if status == 201 else "0"}


async def test_the_address_of_a_deleted_service_is_free_without_its_last_finalizer(api):
    spec = {"ports": [{"port": 80}]}
    made = await api(
        "POST", PLACE, {"metadata": {"name": "s", "finalizers": ["example.org/f"]}, "spec": spec}
    )
    address = made.body["spec"]["clusterIP"]
    await api("DELETE", f"{PLACE}/s")
    again = {"metadata": {"name": "t"}, "spec": {**spec, "clusterIP": address}}
    assert (await api("POST", PLACE, again)).status == 422
    await api(
        "PATCH", f"{PLACE}/s", {"metadata": {"finalizers": []}}, Content_Type="application/merge-patch+json"
    )
    assert (await api("POST", PLACE, again)).status == 201


async def test_services_use_up_a_small_range_of_the_tenants_own(api) -> None:
    cidr = {"metadata": {"name": "own"}, "spec": {"cidrs": ["10.64.0.0/28"]}}
    made = await api("POST", "/apis/networking.k8s.io/v1/servicecidrs", cidr)
    assert made.status == 201, made.body
    given: set[str] = set()
    for number in range(14):
        made = await api("POST", PLACE, one_port(f"s{number}"))
        assert made.status == 201, made.body
        given.add(made.body["spec"]["clusterIP"])
    assert given == {f"10.64.0.{number}" for number in range(1, 15)}
    refused = await api("POST", PLACE, one_port("last"))
    assert refused.status == 500
    assert "range is full (addresses: 10.64.0.0/28)" in refused.body["message"]
    await api("DELETE", f"{PLACE}/s3")
    assert (await api("POST", PLACE, one_port("last"))).status == 201


def one_port(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
