"""Tenants named by the host name of a request, if its TLS connection and its path agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.host_names import HostNames, domain_problem
from vcsync.apiserver.request.request_info import RequestInfo, parse_path, request_info

NAMES = HostNames("tenants.example.com")
ACME = "acme.tenants.example.com"
PODS = "/api/v1/namespaces/n/pods"


def info(path: str = PODS) -> RequestInfo:
    return request_info("GET", parse_path(path), {})


def resolved(host: str, server_name: str | None = None, path: str = PODS) -> RequestInfo:
    return NAMES.resolve(info(path), [host], server_name)


def refused(hosts: list[str], server_name: str | None = None, path: str = PODS) -> int:
    with pytest.raises(StatusError) as caught:
        NAMES.resolve(info(path), hosts, server_name)
    return caught.value.code


@pytest.mark.parametrize(
    "host", [ACME, "ACME.Tenants.Example.COM", f"{ACME}.", f"{ACME}:6443", f"{ACME}.:6443", f"{ACME}:"]
)
@pytest.mark.parametrize("server_name", [None, ACME, ACME.upper(), f"{ACME}."])
def test_a_label_below_the_domain_names_a_tenant(host: str, server_name: str | None) -> None:
    found = resolved(host, server_name)
    assert (found.tenant, found.by_host, found.path, found.resource) == ("acme", True, PODS, "pods")


def test_labels_are_compared_as_text() -> None:
    assert resolved("xn--bcher-kva.tenants.example.com").tenant == "xn--bcher-kva"
    assert resolved("no-such-tenant.tenants.example.com").tenant == "no-such-tenant"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:6443",
        "[::1]:6443",
        "[2001:db8::1]",
        "localhost",
        "some_host:6443",
        "tenants.example.com",
        "tenants.example.com.",
        "xtenants.example.com",
        "acme.tenants.example.com.example.org",
        "acme.example.com",
        ":6443",
    ],
)
@pytest.mark.parametrize("path", [PODS, f"/tenants/umbrella{PODS}"])
def test_other_hosts_name_none(host: str, path: str) -> None:
    assert resolved(host, "", path) is not None
    assert resolved(host, "", path) == resolved(host, "localhost", path) == info(path)


def test_a_request_without_a_host_names_none() -> None:
    assert NAMES.resolve(info(), [], "") == info()
    assert refused([], ACME) == 421


@pytest.mark.parametrize(
    "label",
    [
        "a.acme",
        "",
        ".acme",
        "acme.",
        "acme_",
        "-acme",
        "acme-",
        "all",
        "ALL",
        "system",
        "a" * 64,
        "*",
        "_acme",
    ],
)
def test_what_is_not_exactly_one_label_is_refused(label: str) -> None:
    host = f"{label}.tenants.example.com"
    assert refused([host], host) == refused([host]) == 400


@pytest.mark.parametrize(
    "host",
    [
        f"x@{ACME}",
        f"{ACME}..",
        f".{ACME}",
        ".",
        "localhost..",
        f"{ACME}/",
        f"{ACME}?a",
        f"{ACME}#a",
        f"https://{ACME}",
        f"127.0.0.1, {ACME}",
        f"127.0.0.1 {ACME}",
        f" {ACME}",
        f"{ACME}\n",
        "acme%2etenants.example.com",
        "%61cme.tenants.example.com",
        f"{ACME}:https",
        f"{ACME}:123456",
        f"{ACME}:-1",
        f"{ACME}:1:1",
        f"{ACME}:\u0661",
        f"[{ACME}]",
        "[::1",
        "::1",
        "[fe80::1%25eth0]",
        f"[::1]{ACME}",
        "\u0430cme.tenants.example.com",
        "acme\u3002tenants.example.com",
        "acme.tenants.example.com\x00",
    ],
)
def test_what_is_no_host_name_or_address_is_refused(host: str) -> None:
    assert refused([host]) == refused([host], "") == refused([host], ACME) == 400


def test_several_hosts_are_refused() -> None:
    assert refused([ACME, ACME], ACME) == refused(["127.0.0.1", ACME]) == 400


@pytest.mark.parametrize(
    ("host", "server_name"),
    [
        (ACME, ""),
        (ACME, "127.0.0.1"),
        (ACME, "umbrella.tenants.example.com"),
        (ACME, "tenants.example.com"),
        (ACME, f"a.{ACME}"),
        (ACME, "\xff"),
        ("127.0.0.1", ACME),
        ("tenants.example.com", ACME),
        ("localhost", f"a.{ACME}"),
        ("localhost", "all.tenants.example.com"),
        ("", ACME),
    ],
)
def test_a_connection_for_another_host_name_is_misdirected(host: str, server_name: str) -> None:
    assert refused([host], server_name) == 421


@pytest.mark.parametrize(
    "path",
    [
        f"/tenants/umbrella{PODS}",
        "/api/v1/tenants/umbrella/namespaces/n/pods",
        f"/tenants/all{PODS}",
        f"/tenants/ACME{PODS}",
        "/tenants/umbrella",
    ],
)
def test_a_path_of_another_tenant_is_refused(path: str) -> None:
    assert refused([ACME], ACME, path) == 400


@pytest.mark.parametrize(
    "path", [f"/tenants/acme{PODS}", "/api/v1/tenants/acme/namespaces/n/pods", "/tenants/acme"]
)
def test_a_path_of_the_same_tenant_stays_valid(path: str) -> None:
    assert resolved(ACME, ACME, path) == info(path)


@given(
    st.lists(
        st.sampled_from(
            ["acme", "umbrella", ".", "tenants.example.com", ":", "6443", "%", "@", "A", "[", "]", "_", " "]
        )
    ),
    st.none() | st.sampled_from(["", ACME, "umbrella.tenants.example.com"]),
)
def test_a_tenant_is_named_only_by_its_exact_name(parts: list[str], server_name: str | None) -> None:
    host = "".join(parts)
    try:
        found = resolved(host, server_name)
    except StatusError:
        return
    if found.tenant is not None:
        name = host.lower().partition(":")[0].removesuffix(".")
        assert name == f"{found.tenant}.tenants.example.com"
        assert server_name in (None, name)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ("tenants.example.com", ""),
        ("a.b", ""),
        ("example", "at least two labels"),
        ("localhost", "at least two labels"),
        ("", "DNS name"),
        (".example.com", "DNS name"),
        ("example.com.", "DNS name"),
        ("*.example.com", "DNS name"),
        ("Example.com", "DNS name"),
        ("exa_mple.com", "DNS name"),
        ("example.com:6443", "DNS name"),
        ("10.0.0.1", "DNS name"),
        (".".join(["a" * 60] * 4), "at most 189 characters"),
    ],
)
def test_domains(domain: str, said: str) -> None:
    assert said in domain_problem(domain)
    assert bool(domain_problem(domain)) == bool(said)
