"""Ingress controller of hollow clusters."""

import asyncio
import json
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until

from vcsync.api import names
from vcsync.kube.errors import ServerError, Status
from vcsync.kube.resources import INGRESS_CLASSES, INGRESSES
from vcsync.objects.envelope import Envelope, parse
from vcsync.simulate import ingresses
from vcsync.simulate.balancers import Balancers
from vcsync.simulate.ingresses import INGRESS_CLASS, IngressController, report

ADDRESS = "198.18.0.9"
SERVED = {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}
NONE = {"loadBalancer": {"ingress": []}}
OTHERS = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}


def ingress(class_name: str = INGRESS_CLASS, status: Any = None, **metadata: Any) -> Envelope:
    spec = {"ingressClassName": class_name} if class_name else {}
    body = {"metadata": {"name": "web", "namespace": "shop", **metadata}, "spec": spec}
    return parse(json.dumps({**body, "status": status or {}}).encode())


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (ingress(), SERVED),
        (ingress(status=SERVED), None),
        (ingress(status=OTHERS), SERVED),
        (ingress("nginx"), None),
        (ingress("nginx", OTHERS), None),
        (ingress("nginx", SERVED), NONE),
        (ingress(""), None),
        (ingress(deletionTimestamp="2026-05-01T12:00:00Z"), None),
    ],
)
def test_ingresses_of_the_class_have_the_address_of_the_controller(found: Envelope, status: Any) -> None:
    assert report(found, ADDRESS) == status


async def test_the_class_is_published_and_ingresses_are_served_after_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingresses, "AGAIN_SECONDS", 0.01)
    cluster = MemoryCluster("r1")
    failures = [True, True]

    def before(verb: str, *_: str) -> None:
        if verb in ("create", "patch") and failures:
            failures.pop()
            raise ServerError(Status(500, "InternalError", "no"))

    cluster.before = before
    cluster.put(INGRESSES, "web", "shop", spec={"ingressClassName": INGRESS_CLASS})
    task = asyncio.create_task(IngressController(cluster, ADDRESS).run())  # type: ignore[arg-type]
    found = await until(lambda: cluster.found(INGRESS_CLASSES, INGRESS_CLASS))
    assert found["metadata"]["labels"] == {names.SUPER_PUBLIC: "true"}
    await until(lambda: (cluster.found(INGRESSES, "web", "shop") or {}).get("status") == SERVED)
    task.cancel()
    await asyncio.wait((task,))


def test_clusters_of_a_pool_have_different_addresses() -> None:
    assert len({Balancers(1).ingress_address(network) for network in range(100)}) == 100
    assert Balancers(1).ingress_address(3) == Balancers(1).ingress_address(3)
