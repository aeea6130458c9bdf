"""A tenant reads of its own requests, and of nobody else's."""

from vcsync.controlplane.rest import metering
from vcsync.controlplane.rest.metering import Meter
from vcsync.controlplane.rest.requestinfo import parse_path, parse_query, request_info

PODS = "/api/v1/namespaces/default/pods"


def asked(method, path, query=""):
    return request_info(method, parse_path(path), parse_query(query))


def counted(*requests, tenant="a", meter=None):
    meter = meter or Meter()
    for method, path, code in requests:
        meter.count(tenant, asked(method, path), code, applies=False)
    return meter


def test_requests_are_counted_as_kube_apiserver_names_them():
    text = counted(
        ("GET", f"{PODS}/one", 200), ("GET", PODS, 200), ("POST", PODS, 201), ("POST", PODS, 201)
    ).text("a")
    assert (
        b'apiserver_request_total{code="201",group="",resource="pods",scope="resource",subresource="",'
        b'verb="POST",version="v1"} 2\n'
    ) in text
    assert b'scope="namespace",subresource="",verb="LIST"' in text


def test_nothing_of_another_tenant_is_told():
    meter = counted(("GET", PODS, 200), tenant="a")
    assert b"pods" not in meter.text("b")


def test_paths_are_not_counted():
    assert b"{" not in counted(("GET", "/version", 200)).text("a")


def test_an_apply_is_told_from_other_patches():
    meter = Meter()
    meter.count("a", asked("PATCH", f"{PODS}/one"), 200, applies=True)
    assert b'verb="APPLY"' in meter.text("a")


def test_a_tenant_with_many_resources_is_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(metering, "MAX_SERIES", 3)
    meter = counted(*(("GET", f"/apis/g{number}/v1/things", 200) for number in range(9)))
    assert meter.text("a").count(b"\napiserver_request_total{") <= 4
    assert b'resource="other",scope="cluster",subresource="",verb="LIST",version=""} 6' in meter.text("a")


def test_who_was_silent_longest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(metering, "MAX_ALL_SERIES", 2)
    meter = Meter()
    for tenant in "abac":
        counted(("GET", PODS, 200), tenant=tenant, meter=meter)
    assert b"pods" in meter.text("a")
    assert b"pods" not in meter.text("b")
    assert b"pods" in meter.text("c")
