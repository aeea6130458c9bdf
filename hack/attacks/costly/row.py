"""One costly attack, and what its rows are made of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hack.attacks.client import Answer, Door

MEGABYTE = 2**20
CORE, DEFAULT = "/api/v1", "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
GROUP = "costly.example.com"
BOMBS = f"/apis/{GROUP}/v1/bombs"
YAML = {"Content-Type": "application/yaml"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
LOW = {"Impersonate-User": "low"}
"""Header by which the tenant's administrator acts as a user with the roles that the row binds."""
TOGETHER = 100
"""Requests that are sent on one connection before their answers are read."""
LABELS: dict[str, str] = {"app": "a"}

Attack = Callable[[Door], Iterable[Answer]]


@dataclass(frozen=True)
class Row:
    """An attack by the administrator of a tenant of its own, and what it may cost.

    Attributes:
        name: Its name.
        attack: Carries it out; yields the answers, which must be no 5xx.
        step: Aim for the longest step of the event loop, in milliseconds.
        size: Aim for the growth of resident memory, in MiB.
        settle: Seconds for which controllers act after it.
    """

    name: str
    attack: Attack
    step: int = 50
    size: int = 96
    settle: float = 0.0


def post(door: Door, place: str, *bodies: Any, headers: Mapping[str, str] | None = None) -> list[Answer]:
    """Create objects over few connections."""
    return send(door, [door.request("POST", place, body, headers) for body in bodies])


def send(door: Door, requests: Sequence[bytes]) -> list[Answer]:
    """Send requests over few connections."""
    found: list[Answer] = []
    for begin in range(0, len(requests), TOGETHER):
        some = requests[begin : begin + TOGETHER]
        found += door.raw(b"".join(some), answers=len(some))
    return found


def posting(place: str, body: Any, headers: Mapping[str, str] | None = None) -> Attack:
    """Return an attack of one creation; `body` may be a function that makes it."""
    return lambda door: post(door, place, body() if callable(body) else body, headers=headers)


def reading(path: str, headers: Mapping[str, str] | None = None, times: int = 1) -> Attack:
    """Return an attack of reads."""
    return lambda door: send(door, [door.request("GET", path, None, headers)] * times)


def after(*attacks: Attack) -> Attack:
    """Return an attack of several steps."""

    def attack(door: Door) -> Iterator[Answer]:
        for each in attacks:
            yield from each(door)

    return attack


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Pod of one container."""
    made = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"metadata": {"name": name, "labels": LABELS}, "spec": made}


def template(**spec: Any) -> dict[str, Any]:
    """Return the template of a workload's Pods."""
    return {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always", **spec},
    }


def workload(kind: str, name: str = "a", **spec: Any) -> dict[str, Any]:
    """Return a workload of group apps."""
    made = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": made}


def definition(
    properties: Mapping[str, Any], columns: Iterable[str] = (), plural: str = "bombs", **version: Any
) -> dict[str, Any]:
    """Return a definition of a cluster-wide custom resource whose objects have these fields.

    Args:
        properties: Of the object.
        columns: JSONPaths of its columns.
        plural: Name of the resource.
        version: Further fields of its version.
    """
    schema = {"type": "object", "properties": dict(properties)}
    made = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": f"c{number}", "type": "string", "jsonPath": path} for number, path in enumerate(columns)
        ],
        **version,
    }  # fmt: skip
    singular = plural[:-1]
    names = {
        "plural": plural,
        "singular": singular,
        "kind": singular.title(),
        "listKind": f"{singular.title()}List",
    }
    spec = {"group": GROUP, "names": names, "scope": "Cluster", "versions": [made]}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


def bomb(name: str = "a", **fields: Any) -> dict[str, Any]:
    """Return a custom resource of `definition`."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Bomb", "metadata": {"name": name}, **fields}


ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def bombing(properties: Mapping[str, Any], *objects: Any, columns: Iterable[str] = ()) -> Attack:
    """Return an attack that defines a resource, waits until it is served, and creates objects of it."""

    def attack(door: Door) -> Iterator[Answer]:
        yield from post(door, DEFINITIONS, definition(properties, columns))
        for _ in range(100):
            if door.ask("GET", BOMBS).status == 200:
                break
        made = [each() if callable(each) else each for each in objects]
        yield from post(door, BOMBS, *made)

    return attack


def role(name: str, rules: Sequence[Any], **metadata: Any) -> dict[str, Any]:
    """Return a ClusterRole."""
    return {"metadata": {"name": name, **metadata}, "rules": list(rules)}


def rules(count: int, verb: str = "get") -> list[dict[str, Any]]:
    """Return this many different rules, none of which allows anything that exists."""
    return [{"apiGroups": [f"g{n}"], "resources": [f"r{n}"], "verbs": [verb]} for n in range(count)]


def binding(name: str, to: str, **subject: str) -> dict[str, Any]:
    """Return a ClusterRoleBinding of a role to user `low`, or to another subject."""
    who = subject or {"kind": "User", "name": "low"}
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": to},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", **who}],
    }
