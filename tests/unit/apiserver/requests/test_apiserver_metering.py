"""The request metrics of a tenant show its own requests only."""

from vcsync.apiserver.request.request_info import parse_path, parse_query, request_info
from vcsync.apiserver.serving import tenant_metrics as metering
from vcsync.apiserver.serving.tenant_metrics import TenantMetrics

PODS = "/api/v1/namespaces/default/pods"


def asked(method, path, query=""):
    return request_info(method, parse_path(path), parse_query(query))


def counted(*requests, tenant="a", meter=None):
    meter = meter or TenantMetrics()
    for method, path, code in requests:
        meter.count(tenant, asked(method, path), code, applies=False)
    return meter


def test_metrics_of_requests_have_the_names_of_kube_apiserver():
    text = counted(
        ("GET", f"{PODS}/one", 200), ("GET", PODS, 200), ("POST", PODS, 201), ("POST", PODS, 201)
    ).text("a")
    assert (
        b'apiserver_request_total{code="201",group="",resource="pods",scope="resource",subresource="",'
        b'verb="POST",version="v1"} 2\n'
    ) in text
    assert b'scope="namespace",subresource="",verb="LIST"' in text


def test_metrics_reveal_nothing_about_other_tenants():
    meter = counted(("GET", PODS, 200), tenant="a")
    assert b"pods" not in meter.text("b")


def test_paths_are_not_counted():
    assert b"{" not in counted(("GET", "/version", 200)).text("a")


def test_apply_is_distinguished_from_other_patches():
    meter = TenantMetrics()
    meter.count("a", asked("PATCH", f"{PODS}/one"), 200, applies=True)
    assert b'verb="APPLY"' in meter.text("a")


def test_a_tenant_with_many_resources_is_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(metering, "MAX_SERIES", 3)
    meter = counted(*(("GET", f"/apis/g{number}/v1/things", 200) for number in range(9)))
    assert meter.text("a").count(b"\napiserver_request_total{") <= 4
    assert b'resource="other",scope="cluster",subresource="",verb="LIST",version=""} 6' in meter.text("a")


def test_the_tenant_that_was_idle_for_the_longest_time_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(metering, "MAX_ALL_SERIES", 2)
    meter = TenantMetrics()
    for tenant in "abac":
        counted(("GET", PODS, 200), tenant=tenant, meter=meter)
    assert b"pods" in meter.text("a")
    assert b"pods" not in meter.text("b")
    assert b"pods" in meter.text("c")
