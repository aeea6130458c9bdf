"""Requests with every resource, verb and option of the API, and bodies from schemas and from the parity corpus."""

import gzip
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote

from hack.fuzz import definitions, values
from hack.fuzz.request import Request, http
from hack.parity import corpus
from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apimachinery.schema.builtin import resources, schema
from vcsync.apimachinery.wire import protobuf
from vcsync.apimachinery.wire.protobuf_wire import ProtobufError

NAMESPACES = ("default", "default", "default", "fuzz-b", "kube-system")
PATCHES = {
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "application/apply-patch+cbor",
}  # fmt: skip
KEPT = ("clusterroles", "clusterrolebindings")
"""Resources whose collections are never deleted, because the tenant's admin would lose its permissions."""
PATCH_TYPES = tuple(sorted(PATCHES))
ACCEPTS = (
    "application/json", "application/json", "*/*", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json", "application/cbor", "text/html", "", ";", "application/json;q=x", ",,,",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense;v=v9;g=x", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/*;q=0.5, */json",
)  # fmt: skip
CONTENTS = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "text/plain",
    "",
    "json",
    "application/json; charset=latin-1",
)
PARAMETERS = {
    "limit": ("1", "0", "-1", "x", "9" * 30, "", "1.5", "500"),
    "continue": ("x", "", "e30", "====", "\x00"),
    "resourceVersion": ("0", "1", "5", "-1", "x", "", "9" * 30, "9223372036854775807", "01", "0x1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x", ""),
    "labelSelector": ("app=a", "a in (b,c)", "!a", "a notin ()", "a=b,c!=d", "((", "a" * 9000, "=,=", "a in (b", "a>1", "a\x00", "ä=ö", "," * 999),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=", "metadata.namespace!=x", "status.phase=Running", "x=y", "=", "a\\,=b", "\\", "," * 99),
    "watch": ("1", "true", "0", "x", ""), "allowWatchBookmarks": ("1", "x"), "sendInitialEvents": ("true", "false", "x"),
    "timeoutSeconds": ("1", "0", "-1", "x", "9" * 20), "timeout": ("1s", "0", "x", "1h", "-1s"), "pretty": ("1", "x"),
    "dryRun": ("All", "x", ""), "fieldManager": ("a", "", "x" * 200, "\x01", "ä"), "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "false", "x"), "gracePeriodSeconds": ("0", "-1", "x", "30", "9" * 30), "propagationPolicy": ("Orphan", "Foreground", "Background", "x"),
    "orphanDependents": ("true", "x"), "includeObject": ("None", "Object", "Metadata", "x"), "%zz": ("%",), "a": ("b" * 5000,), "": ("",),
}  # fmt: skip
NAMES = tuple(PARAMETERS)
PATHS = (
    "/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1?hash=x", "/version",
    "/healthz", "/readyz", "/livez/x", "/metrics", "/apis/x/y", "/logs", "/debug/pprof", "/openapi/v3/apis/fuzz.example.com/v1", "/apis/fuzz.example.com/v1",
    "/.well-known/openid-configuration", "/openid/v1/jwks", "/api/v1/watch/pods", "/api/v1/watch/namespaces/default/pods", "/api/v1/proxy/x", "/api/v2",
)  # fmt: skip
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def request(number: int, random: Random) -> Request:
    """Return a request to a tenant's API."""
    return random.choices(_WAYS, _WEIGHTS)[0](number, random)


def _object(number: int, random: Random) -> Request:
    """Return a request for a built-in resource."""
    resource = random.choice(resources())
    sub = (
        random.choice(tuple(resource.subresources.values()))
        if resource.subresources and random.random() < 0.15
        else None
    )
    wild = random.choice((0.0, 0.0, 0.005, 0.02, 0.1))
    return _send(number, random, resource, sub, lambda: body(resource, sub, random, wild))


def _custom(number: int, random: Random) -> Request:
    """Return a request for a CustomResourceDefinition or a custom resource."""
    if random.random() < 0.25:
        crd = next(each for each in resources() if each.plural == "customresourcedefinitions")
        return _send(
            number,
            random,
            crd,
            None,
            lambda: definitions.definition(random),
            f"{random.choice(definitions.PLURALS)}.{definitions.GROUP}",
        )
    plural = random.choice(definitions.PLURALS)
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    resource = Resource(
        definitions.GROUP, "v1", plural, plural[:-1], plural.title()[:-1], random.random() < 0.8, verbs
    )
    sub = (
        Subresource(
            random.choice(("status", "scale", "x")),
            ("get", "update", "patch"),
            definitions.GROUP,
            "v1",
            "Scale",
        )
        if random.random() < 0.15
        else None
    )
    return _send(number, random, resource, sub, lambda: definitions.instance(random, plural))


def _send(
    number: int,
    random: Random,
    resource: Resource,
    sub: Subresource | None,
    make: Callable[[], Any],
    target: str = "",
) -> Request:
    verb = random.choice(sub.verbs if sub and sub.verbs else resource.verbs)
    if random.random() < 0.03:
        verb = random.choice(
            ("create", "get", "list", "update", "patch", "delete", "deletecollection", "watch")
        )
    if verb == "deletecollection" and (resource.plural in KEPT or random.random() < 0.6):
        verb = "list"
    name = (
        ""
        if (verb in ("create", "list", "watch", "deletecollection") and not sub)
        else target or values.name(random)
    )
    if (
        resource.plural == "namespaces"
        and verb in ("delete", "update", "patch")
        and name in (*NAMESPACES, "default")
    ):
        name = "b"
    path = place(
        resource, random.choice(NAMESPACES) if random.random() < 0.97 else values.name(random), name, random
    )
    if sub:
        path += "/" + sub.name
    headers = {"Accept": random.choice(ACCEPTS) if random.random() < 0.4 else "application/json"}
    query = parameters(random, verb)
    match verb:
        case "create":
            return _with_body(number, random, "POST", path + query, headers, make())
        case "update":
            return _with_body(number, random, "PUT", path + query, headers, make())
        case "patch":
            return _patch(number, random, path, query, headers, make())
        case "delete" | "deletecollection":
            options = random.choice((None, None, b"", _options(random)))
            return http(
                number, "DELETE", path + query, {**headers, "Content-Type": "application/json"}, options
            )
        case _:
            method = "HEAD" if random.random() < 0.02 else "OPTIONS" if random.random() < 0.005 else "GET"
            return http(number, method, path + query, headers, None)


def place(resource: Resource, namespace: str, name: str, random: Random) -> str:
    """Return the path of an object or collection, usually correctly escaped."""
    escape: Callable[[str], str] = (
        (lambda text: text) if random.random() < 0.02 else lambda text: quote(text, safe="", errors="replace")
    )
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if resource.namespaced and (name or random.random() < 0.9):
        base += f"/namespaces/{escape(namespace)}"
    return f"{base}/{resource.plural}" + (f"/{escape(name)}" if name else "")


def parameters(random: Random, verb: str) -> str:
    """Return a query, or an empty string."""
    chosen = [
        (key, random.choice(PARAMETERS[key]))
        for key in random.sample(NAMES, random.choice((0, 0, 0, 1, 2, 4)))
    ]
    if verb == "watch":
        chosen += [("watch", "1"), ("timeoutSeconds", "1")]
    if verb == "list" and random.random() < 0.1:
        token = {
            "v": "meta.k8s.io/v1",
            "rv": random.choice((-1, 0, 1, 50, 2**63, "x")),
            "start": random.choice((*values.NAMES, "../../witness/x", "\x00", "")),
        }
        chosen.append(("continue", urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")))
    if not chosen:
        return ""
    return "?" + "&".join(f"{key}={quote(value, safe='', errors='replace')}" for key, value in chosen)


def body(resource: Resource, sub: Subresource | None, random: Random, wild: float) -> Any:
    """Return an object of a kind: a changed one from the parity corpus, or one generated from the schema."""
    kind = (sub.group, sub.version, sub.kind) if sub else (resource.group, resource.version, resource.kind)
    seeds = corpus_bodies().get((resource.group, resource.plural), ())
    if seeds and not sub and random.random() < 0.6:
        made = values.mutated(random.choice(seeds), random, random.choice((0, 1, 1, 2)))
        if isinstance(made, dict) and isinstance(made.get("metadata"), dict) and random.random() < 0.9:
            made["metadata"]["name"] = values.name(random)
    else:
        found = schema(*kind)
        made = values.of(found, random, wild) if found else values.anything(random)
    if isinstance(made, dict) and random.random() < 0.95:
        made |= {"apiVersion": f"{kind[0]}/{kind[1]}" if kind[0] else kind[1], "kind": kind[2]}
        if isinstance(made.get("metadata"), dict):
            made["metadata"].pop("namespace", None)
    return made


@cache
def corpus_bodies() -> dict[tuple[str, str], list[Any]]:
    """Return (group, resource) -> bodies that the parity corpus creates."""
    found: dict[tuple[str, str], list[Any]] = {}
    for scenario in corpus.load():
        for step in scenario.steps:
            parts = step.path.split("?")[0].strip("/").split("/")
            if step.body is None or step.verb not in ("POST", "PUT") or len(parts) < 3:
                continue
            group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
            plural = (
                rest[2] if rest and rest[0] == "namespaces" and len(rest) > 2 else rest[0] if rest else ""
            )
            found.setdefault((group, plural), []).append(step.body)
    return found


def _with_body(
    number: int, random: Random, method: str, target: str, headers: dict[str, str], made: Any
) -> Request:
    content = random.choice(CONTENTS) if random.random() < 0.05 else "application/json"
    data = json.dumps(made, ensure_ascii=random.random() < 0.5, allow_nan=True).encode(
        "utf-8", "surrogatepass"
    )
    chance = random.random()
    if chance < 0.15 and isinstance(made, dict):
        try:
            data, content = protobuf.encode(made), "application/vnd.kubernetes.protobuf"
        except (ProtobufError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
            content = "application/json"
        if random.random() < 0.5:
            data = damaged(data, random)
    elif chance < 0.2:
        content = "application/yaml"
        data = random.choice(
            (
                BOMB.encode(),
                data,
                b"[" * 5000,
                b"a: !!python/object:os.system x",
                b"---\n---\n",
                b"? : ? :\n",
                b"&a [*a]",
                b"<<: *x",
                b"a: {<<: [1]}",
                b"\xff\xfea",
            )
        )
    elif chance < 0.27:
        data = damaged(data, random)
    elif chance < 0.3:
        data = random.choice(
            (
                b"",
                b"null",
                b"[]",
                b'""',
                b"{",
                b"[" * 20000,
                b'{"a":' * 20000,
                b'{"metadata":' * 900 + b"{}" + b"}" * 900,
                b'{"kind":"A","kind":"B"}',
                b"1" * 5000,
                b"\xff" * 99,
                b"1e999999",
            )
        )
    elif chance < 0.32 and data.startswith(b"{"):
        data = data[:1] + b'"metadata":{"name":"dup"},"spec":null,' + data[1:]
    extra = {"Content-Type": content}
    if random.random() < 0.02:
        extra["Content-Encoding"] = random.choice(("gzip", "deflate", "br", "identity"))
        data = gzip.compress(data, 1, mtime=0) if random.random() < 0.5 else data
    return http(number, method, target, {**headers, **extra}, data)


def damaged(data: bytes, random: Random) -> bytes:
    """Return data with flipped, cut, doubled or dropped bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if not changed:
            break
        at = random.randrange(len(changed))
        match random.randrange(4):
            case 0:
                changed[at] ^= 1 << random.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = changed[at : at + random.randrange(40)]
            case _:
                changed[at] = random.choice((0, 0x22, 0x5C, 0x7F, 0xFF))
    return bytes(changed)


def _patch(number: int, random: Random, path: str, query: str, headers: dict[str, str], made: Any) -> Request:
    kind = random.choice(PATCH_TYPES) if random.random() < 0.97 else random.choice(CONTENTS)
    if "json-patch" in kind:
        made = [_operation(random) for _ in range(random.choice((1, 1, 2, 5)))]
    elif "apply" in kind:
        joint = "&" if query else "?"
        query += f"{joint}fieldManager={random.choice('ab')}" + random.choice(
            ("", "&force=true", "&force=true")
        )
    elif isinstance(made, dict) and random.random() < 0.8:
        keys = random.sample(list(made), min(len(made), 2))
        made = {
            key: values.mutated(made[key], random) if random.random() < 0.3 else made[key] for key in keys
        }
        if random.random() < 0.2:
            made[
                random.choice(
                    ("$patch", "$retainKeys", "$deleteFromPrimitiveList/a", "$setElementOrder/spec")
                )
            ] = values.anything(random)
    data = json.dumps(made).encode()
    if random.random() < 0.05:
        data = damaged(data, random)
    elif "yaml" in kind and random.random() < 0.02:
        data = BOMB.encode()
    return http(number, "PATCH", path + query, {**headers, "Content-Type": kind}, data)


def _operation(random: Random) -> Any:
    pointers = (
        "",
        "/",
        "/metadata/labels/a",
        "/metadata/name",
        "/spec",
        "/spec/replicas",
        "/metadata/finalizers/-",
        "/metadata/finalizers/0",
        "/data/a",
        "/a~2",
        "/a~1b",
        "x",
        "/spec/containers/99999999999999999999",
        "/metadata/annotations/" + "a" * 5000,
        "/metadata",
    )
    made: dict[str, Any] = {
        "op": random.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
        "path": random.choice(pointers),
    }
    if random.random() < 0.8:
        made["value"] = values.anything(random)
    if made["op"] in ("move", "copy"):
        made["from"] = random.choice(pointers)
    return made if random.random() < 0.95 else values.anything(random)


def _options(random: Random) -> bytes:
    found = schema("", "v1", "DeleteOptions")
    made = values.of(found, random, 0.05) if found else {}
    if isinstance(made, dict):
        made |= {"kind": "DeleteOptions", "apiVersion": "v1"}
        made.pop("dryRun", None)
        made.pop("preconditions", None) if random.random() < 0.7 else None
    return json.dumps(made).encode()


def _path(number: int, random: Random) -> Request:
    """Return a request for a path that is not a resource's."""
    headers = {"Accept": random.choice(ACCEPTS)}
    if random.random() < 0.3:
        headers["If-None-Match"] = random.choice(('"x"', "*", "", "W/"))
    path = random.choice(PATHS)
    joint = "&" if "?" in path else "?"
    extra = parameters(random, "get").replace("?", joint, 1)
    return http(
        number, random.choice(("GET", "GET", "GET", "POST", "DELETE", "PUT")), path + extra, headers, None
    )


_WAYS = (_object, _custom, _path)
_WEIGHTS = (70, 24, 6)
