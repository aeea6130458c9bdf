"""Host names of tenants: no Host, TLS server name or path leads to another tenant, and none tells whether a tenant exists."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from hack.attacks.case import DEFAULT, Case, Scene, Who, anonymous, attacker, lowly, wrong
from hack.attacks.client import Answer, Door
from hack.attacks.judge import REFUSED, hint
from hack.attacks.world import DOMAIN

SECRETS = f"{DEFAULT}/secrets"
MISDIRECTED = REFUSED | {421}
ADDRESS = "127.0.0.1"
"""Clients that connect to an address ask for no server name."""
HIDDEN = {
    "its letters": "{tenant}.{domain}",
    "capital letters": "{upper}.{domain}",
    "a dot at the end": "{tenant}.{domain}.",
    "a port": "{tenant}.{domain}:6443",
    "a port and a dot": "{tenant}.{domain}.:6443",
    "an empty port": "{tenant}.{domain}:",
}
"""Spellings of a tenant's host name."""
NAMELESS = {
    "two dots at the end": "{tenant}.{domain}..",
    "a dot in front": ".{tenant}.{domain}",
    "no label": ".{domain}",
    "two labels": "a.{tenant}.{domain}",
    "the own tenant in front": "mallet.{tenant}.{domain}",
    "an empty label between": "{tenant}..{domain}",
    "an underscore": "{tenant}_.{domain}",
    "a hyphen in front": "-{tenant}.{domain}",
    "a wildcard": "*.{domain}",
    "all tenants": "all.{domain}",
    "all tenants in capitals": "ALL.{domain}",
    "the operator": "system.{domain}",
    "an encoded letter": "%76ictim.{domain}",
    "an encoded dot": "{tenant}%2e{domain}",
    "an encoded dot in front": "x%2e{tenant}.{domain}",
    "NUL, encoded": "{tenant}%00.{domain}",
    "user information": "x@{tenant}.{domain}",
    "user information with a password": "{tenant}:x@127.0.0.1",
    "a path": "{tenant}.{domain}/tenants/{tenant}",
    "a path of the own tenant": "127.0.0.1/tenants/{tenant}",
    "a query": "{tenant}.{domain}?tenant={tenant}",
    "a fragment": "127.0.0.1#{tenant}.{domain}",
    "a scheme": "https://{tenant}.{domain}",
    "a backslash": "127.0.0.1\\@{tenant}.{domain}",
    "two names": "127.0.0.1, {tenant}.{domain}",
    "two names with a space": "127.0.0.1 {tenant}.{domain}",
    "two names with a semicolon": "127.0.0.1;{tenant}.{domain}",
    "a tab inside": "{tenant}\t.{domain}",
    "a port of letters": "{tenant}.{domain}:https",
    "a port of many digits": "{tenant}.{domain}:0000006443",
    "a negative port": "{tenant}.{domain}:-1",
    "two ports": "{tenant}.{domain}:6443:6443",
    "brackets": "[{tenant}.{domain}]",
    "an IPv6 literal with a zone": "[::1%25{tenant}.{domain}]",
    "an IPv6 literal with a name behind it": "[::1].{tenant}.{domain}",
    "an IPv6 literal that is open": "[::1",
    "quotation marks": '"{tenant}.{domain}"',
    "letters of another script": "v\u0131ctim.{domain}",
    "letters of full width": "\uff56ictim.{domain}",
    "a dot of another script": "{tenant}\u3002{domain}",
    "a soft hyphen": "vic\u00adtim.{domain}",
    "a punycode label below": "xn--vctim-n4a.{tenant}.{domain}",
    "a very long label": "{long}.{domain}",
    "a very long name": "{labels}.{domain}",
}
"""Hosts that are no host name of a tenant, although another server could read one in them."""
BEFORE = {
    "its path": f"/tenants/{{tenant}}{SECRETS}",
    "Arktos' path": "/api/v1/tenants/{tenant}/secrets",
    "the path of all tenants": f"/tenants/all{SECRETS}",
    "Arktos' path of all tenants": "/api/v1/tenants/all/secrets",
    "an absolute form": f"https://{{tenant}}.{{domain}}{SECRETS}",
    "an absolute form with a port": f"https://{{tenant}}.{{domain}}:6443{SECRETS}",
    "an absolute form of another scheme": f"http://{{tenant}}.{{domain}}{SECRETS}",
    "a path without a scheme": f"//{{tenant}}.{{domain}}{SECRETS}",
    "the operator's path": "/vcsync/v1/tenants/{tenant}/kubeconfig",
    "an authority": "{tenant}.{domain}:443",
}
"""Paths that name another tenant than the host name does."""
SEVERAL = {
    "two hosts": "Host: {own}.{domain}\r\nHost: {tenant}.{domain}\r\n",
    "two hosts, the other one first": "Host: {tenant}.{domain}\r\nHost: {own}.{domain}\r\n",
    "two hosts in other letters": "Host: {own}.{domain}\r\nhOST: {tenant}.{domain}\r\n",
    "the same host twice": "Host: {tenant}.{domain}\r\nHost: {tenant}.{domain}\r\n",
    "a folded host": "Host: {own}.{domain}\r\n {tenant}.{domain}\r\n",
    "a space before the colon": "Host: {own}.{domain}\r\nHost : {tenant}.{domain}\r\n",
    "an empty host": "Host:\r\nHost: {tenant}.{domain}\r\n",
    "no host": "",
    "an HTTP/2 name": ":authority: {tenant}.{domain}\r\n",
}
"""Header lines that name several hosts, or none."""
SENDERS: tuple[tuple[str, Who], ...] = (
    ("an administrator of another tenant", attacker),
    ("a user of another tenant", lowly),
    ("nobody", anonymous),
)


OTHER = {
    "the other tenant": "{tenant}.{domain}",
    "the other tenant in capitals": "{upper}.{domain}",
    "a name below the other tenant": "a.{tenant}.{domain}",
    "the domain": "{domain}",
    "all tenants": "all.{domain}",
    "the operator": "system.{domain}",
    "another domain": "{tenant}.example.org",
}
"""Server names of connections on which a request names another host."""

Send = Callable[[Door, str, str], Answer]
"""Sends an attack as a sender whose tenant is named first, at the tenant that is named second."""


def cases() -> Sequence[Case]:
    """Return the attacks."""
    return [
        Case("the own host name is served", _own),
        *(
            _case(f"{sender}: {name}", who, send)
            for sender, who in SENDERS
            for name, send in (*_spellings(), *_nameless(), *_misdirected(), *_paths(), *_several())
        ),
    ]


def _own(scene: Scene) -> Iterator[str]:
    for pattern in HIDDEN.values():
        yield from wrong(
            _ask(scene.attacker, scene.tenant, scene.tenant, "{own}.{domain}", pattern), frozenset({200})
        )


def _case(name: str, who: Who, send: Send) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        found = hint(lambda tenant: send(who(scene), scene.tenant, tenant), MISDIRECTED)
        if found:
            yield found

    return Case(name, attack)


def _spellings() -> Iterator[tuple[str, Send]]:
    """Yield requests to the host name of another tenant."""
    for name, host in HIDDEN.items():
        yield f"another tenant, with {name}", partial(_at, "{tenant}.{domain}", host)


def _nameless() -> Iterator[tuple[str, Send]]:
    """Yield requests to hosts that are no host name of a tenant."""
    for name, host in NAMELESS.items():
        yield f"{name}, without a server name", partial(_at, ADDRESS, host)
        yield f"{name}, on a connection for the own host name", partial(_at, "{own}.{domain}", host)


def _misdirected() -> Iterator[tuple[str, Send]]:
    """Yield requests on connections that were opened for other host names."""
    for name, server_name in OTHER.items():
        yield f"the own host, on a connection for {name}", partial(_at, server_name, "{own}.{domain}")
        if "tenant" in server_name or "." in server_name.removesuffix("{domain}"):
            host = ADDRESS if server_name.endswith("{domain}") else "{tenant}.{domain}"
            yield f"{host}, on a connection for {name}", partial(_at, server_name, host)
    yield "another tenant, without a server name", partial(_at, ADDRESS, "{tenant}.{domain}")
    yield (
        "another tenant, on a connection for the own host name",
        partial(_at, "{own}.{domain}", "{tenant}.{domain}"),
    )
    yield "another tenant, after a request to the own host name", _second
    yield "no host, in HTTP/1.0, on a connection for another tenant", _old


def _paths() -> Iterator[tuple[str, Send]]:
    """Yield requests to the own host name whose targets name another tenant."""
    for name, path in BEFORE.items():
        yield f"the own host with {name}", partial(_at, "{own}.{domain}", "{own}.{domain}", path=path)


def _several() -> Iterator[tuple[str, Send]]:
    """Yield requests with several hosts."""
    for name, lines in SEVERAL.items():
        for server_name in ("{own}.{domain}", "{tenant}.{domain}", ADDRESS):

            def send(
                door: Door, own: str, tenant: str, lines: str = lines, server: str = server_name
            ) -> Answer:
                return _send(door, _filled(server, own, tenant), _filled(lines, own, tenant))

            yield f"{name}, on a connection for {server_name}", send


def _at(server_name: str, host: str, door: Door, own: str, tenant: str, *, path: str = SECRETS) -> Answer:
    return _ask(door, own, tenant, server_name, host, path)


def _ask(door: Door, own: str, tenant: str, server_name: str, host: str, path: str = SECRETS) -> Answer:  # noqa: PLR0917
    line = f"Host: {_filled(host, own, tenant)}\r\n"
    return _send(door, _filled(server_name, own, tenant), line, _filled(path, own, tenant))


def _second(door: Door, own: str, tenant: str) -> Answer:
    """Send two requests on one connection, the second one to another tenant."""
    pieces = [_head(f"Host: {name}.{DOMAIN}\r\n", SECRETS) for name in (own, tenant)]
    answers = replace(door, server_name=f"{own}.{DOMAIN}").raw(*pieces, answers=2)
    return answers[1] if len(answers) > 1 else Answer(0)


def _old(door: Door, own: str, tenant: str) -> Answer:
    del own
    return replace(door, server_name=f"{tenant}.{DOMAIN}").raw(_head("", SECRETS, "1.0"))[0]


def _send(door: Door, server_name: str, lines: str, path: str = SECRETS) -> Answer:
    return replace(door, server_name=server_name).raw(_head(lines, path))[0]


def _head(lines: str, path: str, version: str = "1.1") -> bytes:
    return f"GET {path} HTTP/{version}\r\n{lines}Accept: application/json\r\n\r\n".encode()


def _filled(pattern: str, own: str, tenant: str) -> str:
    return pattern.format(
        own=own,
        tenant=tenant,
        upper=(tenant or own).upper(),
        domain=DOMAIN,
        long="a" * 64,
        labels=".".join("a" * 126),
    )
