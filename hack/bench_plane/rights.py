"""The cost of authorization in a tenant with 1,000 roles, unchanged and while its roles are rewritten."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hack.bench_plane.load import Ask, Figure, Target, measure
from hack.embedded import ControlPlane
from hack.parity import sides

ROLES = 1000
REVIEWS = 1000
CLIENTS = 4
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
GROUP = "rbac.authorization.k8s.io"


async def run(target: Target, roles: int = ROLES) -> Mapping[str, Figure]:
    """Create roles and bindings, then check permissions without and with a role rewritten before each check."""
    await measure(target, roles, CLIENTS, _role)
    name = f"tenant with {roles:,} roles: "
    return {
        f"{name}authorize": await measure(target, REVIEWS, CLIENTS, _ask),
        f"{name}rewrite": await measure(target, REVIEWS, CLIENTS, _rewrite),
        f"{name}both": await measure(target, REVIEWS, CLIENTS, _rewrite_and_ask),
    }


async def _role(ask: Ask, number: int) -> None:
    name = {"name": f"bench-{number:04}"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": [f"p{number}"]}]
    await ask("POST", f"{RBAC}/clusterroles", {"metadata": name, "rules": rules})
    body = {
        "metadata": name,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", **name},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": f"u{number}"}],
    }
    await ask("POST", f"{RBAC}/clusterrolebindings", body)


async def _ask(ask: Ask, number: int) -> None:
    asked = {"verb": "get", "resource": "pods", "namespace": "a", "name": "p"}
    await ask("POST", REVIEW, {"spec": {"user": f"u{number % ROLES}", "resourceAttributes": asked}})


async def _rewrite(ask: Ask, number: int) -> None:
    body = {"metadata": {"annotations": {"bench": str(number)}}}
    path = f"{RBAC}/clusterroles/bench-{number % 16:04}"
    await ask("PATCH", path, body, "application/merge-patch+json")


async def _rewrite_and_ask(ask: Ask, number: int) -> None:
    await _rewrite(ask, number)
    await _ask(ask, number)


def main() -> int:
    """Measure a tenant with few roles and one with many."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench_plane.rights", description=__doc__)
    parser.add_argument("--roles", type=int, default=ROLES)
    roles = parser.parse_args().roles
    with tempfile.TemporaryDirectory(prefix="vcsync-bench-") as folder, ControlPlane(Path(folder)) as plane:
        for count in (16, roles):
            target = Target(sides.side("ours", plane.create(f"with-{count}")), [plane.pid])
            for name, each in asyncio.run(run(target, count)).items():
                print(f"{name:52}{each.rate:8.0f}/s{each.p99:8.1f} ms p99{each.cpu:8.3f} ms CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
