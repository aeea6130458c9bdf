"""Writes of more keys than a transaction may have, and kinds whose changes concern many objects."""

from collections.abc import Iterator, Sequence
from typing import Any

from hack.attacks.case import DEFAULT, MERGE, Case, Scene, wrong

ANSWERED = frozenset({200, 201, 400, 403, 409, 413, 422})
SERVICES = f"{DEFAULT}/services"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def cases() -> Sequence[Case]:
    """Create Services with many node ports and namespaces with many quotas; change objects that Pods may name."""
    found = [
        _ports(count, kind)
        for count in (1, 100, 126, 127, 128, 129, 140, 300)
        for kind in ("NodePort", "LoadBalancer")
    ]
    found += [_quotas(count) for count in (1, 100, 126, 127, 128, 135)]
    return found + [_classes(number) for number in range(20)]


def _classes(number: int) -> Case:
    """Change objects that all Pods may name."""

    def attack(scene: Scene) -> Iterator[str]:
        name, door = f"class-{number}-{scene.index}", scene.attacker
        body = {"metadata": {"name": name}, "handler": "runc", "overhead": {"podFixed": {"cpu": "1"}}}
        yield from wrong(door.ask("POST", CLASSES, body), frozenset({201}))
        for turn in range(3):
            patch = {"metadata": {"annotations": {"a": str(turn) + "x" * 100_000}}}
            yield from wrong(door.ask("PATCH", f"{CLASSES}/{name}", patch, MERGE), frozenset({200}))
        yield from wrong(door.ask("DELETE", f"{CLASSES}/{name}"), frozenset({200}))

    return Case(f"RuntimeClass {number}", attack)


def service(name: str, count: int, kind: str) -> dict[str, Any]:
    """Return a Service with this number of ports."""
    ports = [{"name": f"p{number}", "port": number + 1} for number in range(count)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": ports}}


def _ports(count: int, kind: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        name = f"wide-{count}-{kind.lower()}-{scene.index}"
        door = scene.attacker
        yield from wrong(door.ask("POST", SERVICES, service(name, count, kind)), frozenset({201}))
        yield from wrong(door.ask("POST", SERVICES, service(f"{name}-later", 1, "ClusterIP")), ANSWERED)
        patch = {"spec": service("", count, kind)["spec"]}
        yield from wrong(door.ask("PATCH", f"{SERVICES}/{name}-later", patch, MERGE), frozenset({200}))
        for each in (name, f"{name}-later"):
            yield from wrong(door.ask("DELETE", f"{SERVICES}/{each}"), frozenset({200, 404}))

    return Case(f"a {kind} with {count} ports", attack)


def _quotas(count: int) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        door, namespace = scene.attacker, f"quotas-{count}-{scene.index}"
        yield from wrong(
            door.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}), frozenset({201})
        )
        place = f"/api/v1/namespaces/{namespace}"
        for number in range(count):
            # No controller runs here, so the status is written as a controller would.
            quota = {"metadata": {"name": f"q{number}"}, "spec": {"hard": {"count/configmaps": "1000"}}}
            yield from wrong(door.ask("POST", f"{place}/resourcequotas", quota), ANSWERED)
            status = {"status": {"hard": {"count/configmaps": "1000"}, "used": {"count/configmaps": "0"}}}
            yield from wrong(
                door.ask("PATCH", f"{place}/resourcequotas/q{number}/status", status, MERGE), ANSWERED | {404}
            )
        yield from wrong(door.ask("POST", f"{place}/configmaps", {"metadata": {"name": "one"}}), ANSWERED)
        yield from wrong(door.ask("DELETE", f"{place}/resourcequotas"), frozenset({200}))

    return Case(f"{count} quotas in a namespace", attack)
