"""Ingress controller of a hollow cluster: a class for tenants, and one address for all Ingresses of this class.

Nothing listens at the address.
"""

import asyncio
from contextlib import suppress
from typing import Any

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import INGRESS_CLASSES, INGRESSES
from vcsync.objects.envelope import Envelope, decode, untyped

CONTROLLER = "hollow.tenancy.x-k8s.io/ingress"
INGRESS_CLASS = "standard"
"""Name of the IngressClass that a hollow cluster publishes."""
AGAIN_SECONDS = 5.0
"""Seconds until a request that failed is made again."""

_log = structlog.get_logger(__name__)

Json = dict[str, Any]


class _Spec(Struct, rename="camel"):
    ingress_class_name: str = ""


def ingress_class() -> Json:
    """Return the IngressClass, which is the default and published to tenants."""
    return {
        "apiVersion": INGRESS_CLASSES.api_version,
        "kind": INGRESS_CLASSES.kind,
        "metadata": {
            "name": INGRESS_CLASS,
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": {"ingressclass.kubernetes.io/is-default-class": names.TRUE},
        },
        "spec": {"controller": CONTROLLER},
    }


def report(ingress: Envelope, address: str) -> Json | None:
    """Return the desired status of an Ingress; None: it is already written, or it is another controller's."""
    is_served = decode(ingress.spec, _Spec).ingress_class_name == INGRESS_CLASS
    there = (untyped(ingress.status).get("loadBalancer") or {}).get("ingress") or []
    wanted = [{"ip": address}] if is_served else []
    if ingress.deleting or there == wanted or (not is_served and there != [{"ip": address}]):
        return None
    return {"loadBalancer": {"ingress": wanted}}


class IngressController:
    """Gives the Ingresses of one hollow cluster its address.

    Args:
        client: client of that cluster, as its administrator; the caller closes it.
        address: the address.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._work: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._ingresses = Reflector(client, INGRESSES, sink=self._changed)

    async def run(self) -> None:
        """Serve Ingresses until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ingresses.run())
            await self._publish()
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._settle()

    async def _publish(self) -> None:
        while True:
            try:
                with suppress(AlreadyExists):
                    await self._client.create(INGRESS_CLASSES, ingress_class())
            except KubeError as error:
                _log.debug("the API refused the ingress class", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    async def _settle(self) -> None:
        """Write statuses until nothing is to be done. A request that failed is made again later."""
        while self._work:
            key, _ = self._work.popitem()
            found = self._ingresses.cache.get(*key)
            status = report(found, self._address) if found is not None else None
            if found is None or status is None:
                continue
            patch = {"metadata": {"uid": found.uid}, "status": status}
            try:
                with suppress(NotFound):
                    self._ingresses.observe(
                        await self._client.patch(INGRESSES, key[1], patch, key[0], subresource="status")
                    )
            except KubeError as error:
                _log.debug("the API refused", ingress=key, error=str(error))
                self._work.setdefault(key)
                self._wake.set()
                await asyncio.sleep(AGAIN_SECONDS)
                return

    def _changed(self, change: Change) -> None:
        if change.new is not None and report(change.new, self._address) is not None:
            self._work[change.new.key] = None
            self._wake.set()
