"""The path and query of a forwarded request: those of the client, or none at all."""

import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.request_info import parse_path, parse_query, request_info
from vcsync.gateway.paths import forwarded_target

PODS = "/api/v1/namespaces/default/pods"


def target(path: str, query: str = "", method: str = "GET") -> str:
    """Read a URL as the filter chain does, and return what is forwarded."""
    parsed = parse_query(query)
    info = request_info(method, parse_path(path), parsed)
    return forwarded_target(method, path, query, info, parsed)


@pytest.mark.parametrize(
    ("path", "query", "forwarded"),
    [
        (PODS, "", PODS),
        ("/tenants/acme" + PODS, "", PODS),
        ("/tenants/acme" + PODS, "watch=true&labelSelector=a%3Db", f"{PODS}?watch=true&labelSelector=a%3Db"),
        ("/tenants/acme", "", "/"),
        ("/tenants/acme/", "", "/"),
        ("/tenants/acme/apis/", "", "/apis/"),
        ("/tenants/acme/version", "timeout=32s", "/version?timeout=32s"),
        ("/api/v1/tenants/acme/namespaces/default/pods", "", PODS),
        ("/apis/apps/v1/tenants/acme/deployments", "", "/apis/apps/v1/deployments"),
        ("/api/v1/watch/tenants/acme/pods", "", "/api/v1/watch/pods"),
        # Names of RBAC objects contain colons; the spelling of the client stays.
        (
            "/tenants/acme/apis/rbac.authorization.k8s.io/v1/clusterroles/system:admin",
            "",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:admin",
        ),
        (
            "/tenants/acme/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
            "",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
        ),
        ("/tenants/acme/%61pi/v1/pods", "", "/%61pi/v1/pods"),
        ("/tenants/acme" + PODS + "/p/exec", "command=sh&command=-c", f"{PODS}/p/exec?command=sh&command=-c"),
        ("/tenants/acme" + PODS, 'fieldSelector=a="b"|c^{d}`e\\', f'{PODS}?fieldSelector=a="b"|c^{{d}}`e\\'),
    ],
)
def test_the_bytes_of_the_client_are_forwarded_without_the_tenant(
    path: str, query: str, forwarded: str
) -> None:
    assert target(path, query) == forwarded


@pytest.mark.parametrize(
    ("path", "query"),
    [
        # Dot segments to servers that cut parameters off.
        ("/tenants/acme/api/v1/namespaces/a/..;/pods", ""),
        ("/tenants/acme/api/v1/namespaces/a/..;a=b/pods", ""),
        ("/tenants/acme/api/v1/namespaces/.;/pods", ""),
        ("/tenants/acme/api/v1/namespaces/a/%2e%2E;/pods", ""),
        # Encoded twice: a server behind that decodes once more would see other segments.
        ("/tenants/acme/api/v1/namespaces/%252e%252e/pods", ""),
        ("/tenants/acme/api/v1/namespaces/a%252Fb", ""),
        ("/tenants/acme/api/v1/pods/%2500", ""),
        # Dot segments and encoded slashes.
        ("/tenants/acme/../umbrella/api", ""),
        ("/tenants/acme/api/v1/namespaces/..", ""),
        ("/tenants/acme/api/./v1/pods", ""),
        ("/tenants/acme/%2e%2e/umbrella/api", ""),
        ("/tenants/acme/api/v1/namespaces/a%2f..%2fb", ""),
        ("/tenants/acme%2Fapi", ""),
        # Empty segments.
        ("/tenants/acme//api/v1/pods", ""),
        ("/tenants/acme/api//v1/pods", ""),
        ("/tenants/acme/api/v1/pods//", ""),
        ("//tenants/acme/api/v1/pods", ""),
        ("/tenants//acme/api/v1/pods", ""),
        # Another tenant within the path of the first.
        ("/tenants/acme/tenants/umbrella/api/v1/pods", ""),
        ("/tenants/acme/api/v1/tenants/umbrella/pods", ""),
        ("/api/v1/tenants/acme/tenants/umbrella/pods", ""),
        ("/tenants/acme/tenants/acme/api/v1/pods", ""),
        # An encoded tenant: what is left could not be told by its bytes.
        ("/%74enants/acme/api/v1/pods", ""),
        ("/tenants/%61cme/api/v1/pods", ""),
        ("/api/v1/tenants/%61cme/pods", ""),
        # Bytes that no URL contains.
        ("/tenants/acme/api/v1/pods\\..", ""),
        ("/tenants/acme/api/v1/pods#x", ""),
        ("/tenants/acme/api/v1/po ds", ""),
        ("/tenants/acme/api/v1/p\u00f6ds", ""),
        ("/tenants/acme/api/v1/pods\t", ""),
        ("/tenants/acme/api/v1/pods\r\nHost: x", ""),
        ("/tenants/acme/api/v1/<pods>", ""),
        ("/tenants/acme/api/v1/pods%00", ""),
        ("/tenants/acme/api/v1/pods%zz", ""),
        ("/tenants/acme/api/v1/pods%", ""),
        ("tenants/acme/api/v1/pods", ""),
        ("http://umbrella/tenants/acme/api/v1/pods", ""),
        ("*", ""),
        # Queries: Go's parser drops what has a semicolon or a malformed percent sign, Python's does not.
        ("/tenants/acme" + PODS, "watch=true;x=1"),
        ("/tenants/acme" + PODS, "watch=%zz"),
        ("/tenants/acme" + PODS, "watch=true%"),
        ("/tenants/acme" + PODS, "a=b c"),
        ("/tenants/acme" + PODS, "a=b#watch=true"),
        ("/tenants/acme" + PODS, "a=b\r\nHost: x"),
        ("/tenants/acme" + PODS, "a=\u00e9"),
    ],
)
def test_what_two_servers_could_read_differently_is_refused(path: str, query: str) -> None:
    with pytest.raises(StatusError) as caught:
        target(path, query)
    assert caught.value.code == 400


ODD = st.sampled_from(
    ["tenants", "acme", "umbrella", "api", "v1", "apis", "apps", "watch", "namespaces", "pods", "x", "",
     ".", "..", "%2e", "%2F", "%252e", "%74enants", "%61cme", "a:b", "proxy", ";", "%00", "\\", " ", "%"]
)  # fmt: skip


@given(st.lists(ODD, max_size=9), st.sampled_from(["GET", "POST", "DELETE"]))
def test_the_api_server_reads_what_the_filters_read(segments: list[str], method: str) -> None:
    path = "/" + "/".join(segments)
    try:
        forwarded = target(path, method=method)
        info = request_info(method, parse_path(path), {})
    except StatusError:
        return
    again = request_info(method, parse_path(forwarded), {})
    assert again.tenant is None
    assert (again.verb, again.group, again.version, again.namespace) == (
        info.verb,
        info.group,
        info.version,
        info.namespace,
    )
    assert (again.resource, again.subresource, again.parts) == (info.resource, info.subresource, info.parts)
    # Decoding once more changes nothing, and there is nothing that a proxy would clean.
    assert unquote(unquote(forwarded)) == unquote(forwarded)
    assert not re.search(r"//|/\.\.?(/|$)", unquote(forwarded))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))
def test_any_text_can_be_named_once_it_is_encoded(name: str) -> None:
    encoded = quote(name, safe="")
    path = f"/tenants/acme/apis/example.com/v1/things/{encoded}"
    if "/" in name or name in (".", "..") or re.search("%[0-9A-Fa-f]{2}", name):
        with pytest.raises(StatusError):
            target(path)
    else:
        assert target(path) == f"/apis/example.com/v1/things/{encoded}"
