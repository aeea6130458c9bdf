"""Malformed requests: they must be answered as client errors and have no effect."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from hack.attacks.case import DEFAULT, MERGE, Case, Scene, anonymous, asking, attacker, wrong
from hack.attacks.client import Answer, Door
from hack.attacks.world import VICTIM

SECRETS, CONFIG_MAPS = f"{DEFAULT}/secrets", f"{DEFAULT}/configmaps"
ANSWERED = frozenset({200, 201, 400, 403, 404, 405, 409, 410, 413, 414, 415, 422, 431, 504})
"""Codes for a parameter that may be odd and valid; 504: a future version."""
NOWHERE = frozenset({0, 400, 403, 404, 405, 414})
EMPTY = (
    "/tenants//api/v1/secrets", "/tenants//", "/tenants//vcsync/v1/tenants", "/api/v1/tenants//secrets", "/api/v1/tenants//namespaces/default/secrets",
    "/apis/apps/v1/tenants//deployments", "/api/v1/watch/tenants//secrets", "/api/v1/tenants//pods/x/log", "//api/v1/secrets", "///api/v1/secrets",
    "//tenants/x/api/v1/secrets", "/api//v1/secrets", "/api/v1//secrets", "/apis//v1/secrets", "/apis/apps//deployments",
    f"{SECRETS}//kept-0", f"{SECRETS}/mine//status", f"{SECRETS}/mine//x", "//vcsync/v1/tenants", "/vcsync//v1/tenants", "/vcsync/v1//tenants",
    f"{DEFAULT}/pods//log", f"{DEFAULT}/pods//exec", f"{DEFAULT}/serviceaccounts//token", "/api/v1/namespaces//pods//exec", "//version", "/openapi//v2",
)  # fmt: skip
ESCAPED = (
    "%", "%4", "%zz", "%%", "a%", "a%0", "%00", "a%00b", "%2f", "..%2f", "%2e%2e%2f", "%5c..%5c", "%ff", "%c0%af", "%ed%a0%80", "%u0041", "%25%30%30",
)  # fmt: skip
PARTS = (
    "/tenants/{}/api/v1/secrets", "/api/v1/tenants/{}/secrets", "/api/v1/namespaces/{}/secrets/x", SECRETS + "/{}", "/apis/{}/v1/secrets",
    "/api/v1/{}", "/vcsync/v1/tenants/{}", "/vcsync/v1/tenants/{}/kubeconfig",
)  # fmt: skip
NUMBERS = (
    "",
    "-1",
    "0",
    "+1",
    " 1",
    "1.5",
    "1e3",
    "0x10",
    "9" * 19,
    "9" * 30,
    "9" * 5000,
    "-" + "9" * 5000,
    "\u00b2",
    "\u0665",
    "x",
    "null",
    "%00",
    "%ff",
    "1,2",
)
NUMBERED = ("limit", "timeoutSeconds", "resourceVersion", "gracePeriodSeconds", "timeout", "continue")
WORDS = ("", "x", "All", "strict", "None", "%00", "%ff", "a" * 9000, "true", "1")
WORDED = (
    "dryRun",
    "fieldValidation",
    "fieldManager",
    "resourceVersionMatch",
    "propagationPolicy",
    "watch",
    "pretty",
    "sendInitialEvents",
    "labelSelector",
    "fieldSelector",
)


def cases() -> Sequence[Case]:
    """Send paths with empty or malformed segments, and invalid numbers and versions."""
    found = [asking(f"{whose} {path}", who, "GET", path, wanted=NOWHERE) for path in EMPTY
             for whose, who in (("admin", attacker), ("operator", lambda scene: scene.world.operator))]  # fmt: skip
    found += [asking(f"POST {path}", attacker, "POST", path, {"spec": {}}, NOWHERE) for path in EMPTY]
    found += [
        asking(f"{place} with {part}", attacker, "GET", place.format(part), wanted=NOWHERE)
        for place in PARTS
        for part in ESCAPED
    ]
    found += [
        asking(f"nobody: {part}", anonymous, "GET", f"/tenants/{VICTIM}{part}/api/v1/secrets", wanted=NOWHERE)
        for part in ESCAPED
    ]
    found += [_parameter(key, value) for key in NUMBERED for value in NUMBERS]
    found += [_parameter(key, value) for key in WORDED for value in WORDS]
    return found + [_version(value) for value in ("-1", "x", "1.5", "9" * 5000, "\u0665", "0x1", "+1")]


def _parameter(key: str, value: str) -> Case:
    query = f"{key}={value if value.startswith('%') else quote(value)}"

    def attack(scene: Scene) -> Iterator[str]:
        door = scene.attacker
        if not (key == "resourceVersion" and value == "9" * 19):  # These would be waited for.
            yield from wrong(door.ask("GET", f"{CONFIG_MAPS}?{query}&timeoutSeconds=1"), ANSWERED)
            yield from wrong(_opened(door, f"{CONFIG_MAPS}?watch=1&{query}"), ANSWERED)
        yield from wrong(door.ask("DELETE", f"{CONFIG_MAPS}/none?{query}"), ANSWERED)
        yield from wrong(
            door.ask("POST", f"{CONFIG_MAPS}?dryRun=All&{query}", {"metadata": {"name": "x"}}), ANSWERED
        )
        yield from wrong(door.ask("PATCH", f"{CONFIG_MAPS}/none?{query}", {}, MERGE), ANSWERED)

    return Case(f"{key}={value[:30]!r}", attack)


def _opened(door: Door, path: str) -> Answer:
    """Open a watch and leave; the answer has no body."""
    with door.connect() as connection:
        connection.sendall(door.request("GET", path))
        first = connection.makefile("rb").readline(1000).split(b" ")
        return Answer(int(first[1]) if len(first) > 1 else 0)


def _version(value: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        refused, text = frozenset({400}), quote(value)
        yield from wrong(scene.attacker.ask("GET", f"{SECRETS}?watch=1&resourceVersion={text}"), refused)
        yield from wrong(scene.attacker.ask("GET", f"{SECRETS}?resourceVersion={text}"), refused)
        yield from wrong(scene.attacker.ask("GET", f"{SECRETS}/mine?resourceVersion={text}"), refused)
        body = {"metadata": {"name": "mine", "resourceVersion": value}}
        yield from wrong(scene.attacker.ask("PUT", f"{SECRETS}/mine", body), refused)

    return Case(f"version {value[:20]!r}", attack)
