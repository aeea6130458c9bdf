import pytest
from asked_plane import Everybody, ask

from vcsync.apimachinery.errors import StatusError, unauthorized
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.request import request_info as requested
from vcsync.apiserver.request.request_info import check_timeout, parse_path, parse_query, request_info

ROWS = [
    # method, url, verb, tenant, group, version, namespace, resource, name, subresource
    ("GET", "/api/v1/pods", "list", None, "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=true", "watch", None, "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=false", "list", None, "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch", "watch", None, "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/namespaces/n/pods/p", "get", None, "", "v1", "n", "pods", "p", ""),
    ("GET", "/api/v1/namespaces/n/pods/p/log", "get", None, "", "v1", "n", "pods", "p", "log"),
    ("GET", "/api/v1/namespaces/n", "get", None, "", "v1", "n", "namespaces", "n", ""),
    ("PUT", "/api/v1/namespaces/n/finalize", "update", None, "", "v1", "n", "namespaces", "n", "finalize"),
    ("GET", "/api/v1/namespaces", "list", None, "", "v1", "", "namespaces", "", ""),
    ("POST", "/apis/apps/v1/namespaces/n/deployments", "create", None, "apps", "v1", "n", "deployments", "", ""),
    ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection", None, "", "v1", "n", "pods", "", ""),
    ("DELETE", "/api/v1/namespaces/n/pods/p", "delete", None, "", "v1", "n", "pods", "p", ""),
    ("HEAD", "/api/v1/namespaces/n/pods/p", "get", None, "", "v1", "n", "pods", "p", ""),
    ("GET", "/api/v1/watch/namespaces/n/pods/p", "watch", None, "", "v1", "n", "pods", "p", ""),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list", None, "", "v1", "", "pods", "x", ""),
    ("GET", "/tenants/t1/api/v1/pods", "list", "t1", "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/tenants/t1/pods", "list", "t1", "", "v1", "", "pods", "", ""),
    ("GET", "/apis/apps/v1/tenants/t1/namespaces/n/deployments/d", "get", "t1", "apps", "v1", "n",
     "deployments", "d", ""),
    ("GET", "/api/v1/tenants/all/pods?watch=1", "watch", "all", "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/watch/tenants/t1/pods", "watch", "t1", "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/tenants/t1/status", "get", None, "", "v1", "", "tenants", "t1", "status"),
    ("GET", "/api/v1/tenants/t1", "get", None, "", "v1", "", "tenants", "t1", ""),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_urls_determine_the_attributes_of_a_request(row):
    method, url, *expected = row
    path, _, query = url.partition("?")
    info = request_info(method, parse_path(path), parse_query(query))
    found = [
        info.verb, info.tenant, info.group, info.version, info.namespace, info.resource, info.name,
        info.subresource,
    ]  # fmt: skip
    assert info.resource_request
    assert found == expected


@pytest.mark.parametrize(
    "url", ["/", "/version", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/tenants/t"]
)
def test_other_paths_are_not_resource_requests(url):
    info = request_info("GET", url, {})
    assert not info.resource_request
    assert info.verb == "get"


def test_the_tenant_in_front_is_not_part_of_the_path():
    info = request_info("GET", "/tenants/t1/apis", {})
    assert (info.tenant, info.path) == ("t1", "/apis")


@pytest.mark.parametrize(
    "path", ["/api/v1/pods/a%2Fb", "/api/v1/../v1/pods", "/api/./v1", "/api/v1/%2e%2e/x", "/a%00b", "/%ff"]
)
def test_invalid_encodings_are_refused(path):
    with pytest.raises(StatusError) as refused:
        parse_path(path)
    assert refused.value.code == 400


def test_the_length_of_queries_is_limited():
    with pytest.raises(StatusError):
        parse_query("&".join(f"a{number}=1" for number in range(1000)))
    with pytest.raises(StatusError):
        parse_query("a=" + "x" * 100_000)


EXEC = "/api/v1/namespaces/n/pods/p/exec"


@pytest.mark.parametrize("path", [EXEC, f"/tenants/t{EXEC}", "/api/v1/tenants/t/namespaces/n/pods/p/exec"])
@pytest.mark.parametrize(
    "raw", ["command=" + "x" * 100_000, "&".join(f"command={number}" for number in range(1000))]
)
def test_a_command_may_be_long_and_have_many_arguments(path, raw):
    assert "&".join(f"command={each}" for each in parse_query(raw, path)["command"]) == raw


@pytest.mark.parametrize(
    "raw", ["command=" + "x" * 140_000, "&".join(f"command={number}" for number in range(2_001))]
)
def test_the_length_of_commands_is_limited(raw):
    with pytest.raises(StatusError):
        parse_query(raw, EXEC)


@pytest.mark.parametrize(
    "path",
    ["/apis/pods/v1/exec", "/api/v1/namespaces/exec", "/api/v1/namespaces/n/pods/exec", f"{EXEC}/x", ""],
)
def test_the_queries_of_other_paths_stay_short(path):
    with pytest.raises(StatusError, match="too long"):
        parse_query("labelSelector=" + "x" * 100_000, path)


def timed(url):
    path, _, query = url.partition("?")
    asked = parse_query(query)
    check_timeout(request_info("GET", parse_path(path), asked), asked)


@pytest.mark.parametrize("url", ["/version?timeout=soon", "/api/v1/pods?timeout=5", "/healthz?timeout=1x"])
def test_a_timeout_that_is_no_duration_is_refused(url):
    with pytest.raises(StatusError, match="invalid timeout specified in the request URL") as caught:
        timed(url)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "url",
    [
        "/version",
        "/version?timeout=",
        "/version?timeout=3m",
        "/api/v1/pods?watch=1&timeout=soon",
        "/api/v1/namespaces/n/pods/p/log?timeout=soon",
    ],
)
def test_other_timeouts_are_not_checked(url):
    timed(url)


@pytest.mark.parametrize("raw", ["a=1&a=2&b", "a=1&a=2&b&c=" + "x" * 200])
def test_a_query_is_parsed_the_same_from_the_cache(raw):
    assert parse_query(raw) == parse_query(raw)
    assert parse_query(raw)["a"] == ["1", "2"]
    assert parse_query(raw)["b"] == [""]


@pytest.mark.parametrize("raw", ["&" * 110, "&".join("a" * 101)])
def test_too_many_parameters_are_refused_from_the_cache(raw):
    for _ in range(2):
        with pytest.raises(StatusError):
            parse_query(raw)


def test_a_long_timeout_is_refused_by_its_length(monkeypatch):
    """Looking for a unit after each of many digits would take as many steps as their number squared."""
    monkeypatch.delattr(requested, "duration_of")
    for text in ("1" * 65, "1" * 16_000, "1m" * 500):
        with pytest.raises(StatusError, match=f'time: invalid duration "{text}"') as caught:
            timed(f"/version?timeout={text}")
        assert caught.value.code == 400


async def test_a_timeout_is_looked_at_after_the_credentials(store):
    class Nobody(Everybody):
        async def authenticate(self, certificate, authorization, tenant):
            raise unauthorized()

    chain = assemble(store, Nobody()).server.chain
    assert (await ask(chain, "GET", "/version?timeout=soon")).status == 401
    chain = assemble(store, Everybody()).server.chain
    assert (await ask(chain, "GET", "/version?timeout=soon")).status == 400
