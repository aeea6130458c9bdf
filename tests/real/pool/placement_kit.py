"""Pods of a tenant that asks the Pod scheduler about them, and the Service that leads to it."""

from __future__ import annotations

import socket
import threading
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pool_kit import Json, Space, pod, read, super_of

from hack.testbed import Cluster
from tests.real.waiting import eventually
from vcsync.api import names

SERVICE = Path(__file__).resolve().parents[3] / "config/deploy/placement-webhook/service.yaml"
_CHUNK = 65_536


def create(space: Space, body: Json, query: str = "") -> tuple[int, Json]:
    """Create a Pod, and return the answer of the control plane."""
    return space.tenant.call("POST", f"/api/v1/namespaces/{space.name}/pods{query}", body)


def created(space: Space, name: str, **spec: Any) -> str:
    """Create a Pod, and return the super cluster that it names at its creation."""
    code, answer = create(space, pod(name, **spec))
    assert code == 201, answer
    return super_of(answer)


def placed_at_creation(space: Space) -> str:
    """Create Pods until one is placed at its creation. The first ones may be created before the scheduler knows the namespace."""

    def one() -> str:
        name = f"p-{uuid.uuid4().hex[:6]}"
        found = created(space, name)
        if not found:
            space.kubectl("delete", "pod", name, "--wait=true")
        assert found
        return name

    return eventually(one)


def addresses(meta: Cluster) -> list[str]:
    """Return the addresses that the EndpointSlice of the Service names."""
    name = f"{names.SYSTEM_NAMESPACE}/endpointslices/{names.PLACEMENT_SERVICE}"
    found = read(meta, f"/apis/discovery.k8s.io/v1/namespaces/{name}")
    assert found is not None
    return [address for each in found["endpoints"] or () for address in each["addresses"]]


class Forwarder:
    """Leads to the Service in the place of kube-proxy: only new connections follow a change of the EndpointSlice.

    Args:
        meta: the meta cluster.
        ports: address in the EndpointSlice -> port of this machine.

    Attributes:
        port: where it listens.
        opened: number of connections by address.
    """

    def __init__(self, meta: Cluster, ports: Mapping[str, int]) -> None:
        self._meta = meta
        self._ports = ports
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.port: int = self._listener.getsockname()[1]
        self.opened: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client, suppress(OSError, AssertionError):
            [address] = addresses(self._meta) or [""]
            self.opened[address] += 1
            with socket.create_connection(("127.0.0.1", self._ports.get(address, 0))) as server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
