"""The operator's list of hosts, the targets of URLs and Services, and error messages."""

import base64

import pytest

from vcsync.apiserver.egress.failure import CallFailed, error_of_status
from vcsync.apiserver.egress.hosts import parse_host
from vcsync.apiserver.egress.target import target_of


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("hooks.example.com", [("hooks.example.com", 443)], [("hooks.example.com", 8443), ("a.hooks.example.com", 443)]),
        ("*.example.com", [("a.example.com", 443), ("a.b.example.com", 443)], [("example.com", 443), ("badexample.com", 443)]),
        ("Hooks.Example.com:8443", [("hooks.example.com", 8443)], [("hooks.example.com", 443)]),
        ("10.1.2.3:*", [("10.1.2.3", 1), ("10.1.2.3", 65535)], [("10.1.2.4", 1), ("10.1.2.30", 1)]),
        ("[::1]:9443", [("::1", 9443)], [("::1", 443)]),
        ("[2001:db8::1]", [("2001:db8::1", 443)], []),
    ],
)  # fmt: skip
def test_patterns_match_hosts_and_ports(pattern, matching, others):
    found = parse_host(pattern)
    assert all(found.matches(host, port, "t") for host, port in matching)
    assert not any(found.matches(host, port, "t") for host, port in others)


@pytest.mark.parametrize(
    "wrong",
    ["", "*", "*.", "a*.example.com", "https://example.com", "example.com/path", "u@example.com", "a:0", "a:65536",
     "a:b", "[::1", "[::1]x", "a b"],
)  # fmt: skip
def test_invalid_patterns_are_refused(wrong):
    with pytest.raises(ValueError, match=r"\w"):
        parse_host(wrong)


def test_a_pattern_can_be_limited_to_one_tenant():
    found = parse_host("hooks.example.com", "acme")
    assert found.matches("hooks.example.com", 443, "acme")
    assert not found.matches("hooks.example.com", 443, "other")


@pytest.mark.parametrize(
    ("config", "url", "host", "port"),
    [
        ({"url": "https://a.example.com"}, "https://a.example.com/", "a.example.com", 443),
        ({"url": "https://A.Example.com.:8443/x/"}, "https://a.example.com:8443/x", "a.example.com", 8443),
        ({"url": "https://a/b/../c//d"}, "https://a/c/d", "a", 443),
        ({"url": "https://a/b%20c%0d%0aHost:x"}, "https://a/b%20c%0D%0AHost:x", "a", 443),
        ({"url": "https://[::1]:1/x"}, "https://[::1]:1/x", "::1", 1),
        ({"service": {"namespace": "n", "name": "s"}}, "https://s.n.svc:443/", "s.n.svc", 443),
        ({"service": {"namespace": "n", "name": "s", "path": "/p", "port": 8443}}, "https://s.n.svc:8443/p", "s.n.svc", 8443),
    ],
)  # fmt: skip
def test_urls_are_normalized(config, url, host, port):
    found = target_of("t", config)
    assert (found.url, found.host, found.port) == (url, host, port)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"url": ""},
        {"url": "http://a.example.com"},
        {"url": "https://u:p@a.example.com"},
        {"url": "https://a:99999"},
        {"url": "https://[::1"},
        {"url": "https://a", "caBundle": base64.b64encode(b"x" * (1 << 21)).decode()},
    ],
)
def test_invalid_configurations_are_refused(config):
    with pytest.raises(CallFailed):
        target_of("t", config)


@pytest.mark.parametrize(
    ("code", "content_type", "body", "message"),
    [
        (500, "text/plain", b"boom\n", 'an error on the server ("boom") has prevented the request from succeeding'),
        (502, "application/json", b"{}", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (404, "text/plain", b"x", "the server could not find the requested resource"),
        (403, "text/plain", b"not you", "not you"),
        (418, "", b"tea", "the server responded with the status code 418 but did not return more information"),
        (500, "application/json", b'{"kind":"Status","apiVersion":"v1","message":"m"}', "m"),
    ],
)  # fmt: skip
def test_error_messages_are_those_of_kubernetes_clients(code, content_type, body, message):
    assert str(error_of_status(code, content_type, body)) == message
    assert len(str(error_of_status(500, "", b"x" * 10**6))) < 4000
