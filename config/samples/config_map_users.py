"""A sample controller over all tenants: writes on each ConfigMap how many Pods mount it.

    python config/samples/config_map_users.py admin.kubeconfig

One list and one watch of each resource cover all tenants. Objects of different tenants can have the same namespace and
name, so everything that correlates objects compares their tenants as well: the keys below begin with the tenant.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

from vcsync.client import ALL_TENANTS, for_tenant, tenant_of

ANNOTATION = "samples.vcsync.x-k8s.io/pods"
"""Number of Pods that mount a ConfigMap."""
PAUSE_SECONDS = 1.0
"""Pause before a list or a write that failed is repeated."""
NOT_FOUND = 404


class Key(NamedTuple):
    """Identifies an object among those of all tenants."""

    tenant: str
    namespace: str
    name: str


def key_of(obj: Any) -> Key:
    """Return the key of an object that was read across tenants."""
    return Key(tenant_of(obj), obj.metadata.namespace, obj.metadata.name)


def count_users(pods: Iterable[Any]) -> Counter[Key]:
    """Return how many Pods mount each ConfigMap."""
    users: Counter[Key] = Counter()
    for pod in pods:
        volumes = pod.spec.volumes or []
        names = {volume.config_map.name for volume in volumes if volume.config_map is not None}
        users.update(Key(tenant_of(pod), pod.metadata.namespace, name) for name in names)
    return users


class Controller:
    """Follows Pods and ConfigMaps of all tenants, and annotates ConfigMaps.

    Args:
        api: Client of the operator's space.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._pods: dict[Key, Any] = {}
        self._config_maps: dict[Key, Any] = {}
        self._filled = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        core = client.CoreV1Api(for_tenant(self._api, ALL_TENANTS))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(core.list_pod_for_all_namespaces, self._pods))
            tasks.create_task(self._follow(core.list_config_map_for_all_namespaces, self._config_maps))
            tasks.create_task(self._reconcile())

    async def _follow(self, read: Any, cache: dict[Key, Any]) -> None:
        """Keep a cache equal to a collection of all tenants."""
        first = True
        while True:
            try:
                listed = await read()
                cache.clear()
                cache.update({key_of(item): item for item in listed.items})
                self._filled, first = self._filled + first, False
                self._changed.set()
                stream = watch.Watch().stream(read, resource_version=listed.metadata.resource_version)
                async for event in stream:
                    if event["type"] == "DELETED":
                        cache.pop(key_of(event["object"]), None)
                    else:
                        cache[key_of(event["object"])] = event["object"]
                    self._changed.set()
            except (ApiException, OSError) as error:
                logging.warning("list again: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _reconcile(self) -> None:
        """Write each number that differs from the annotation, whenever something has changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._filled < 2:
                continue  # a number that lacks some Pods would be wrong
            users = count_users(self._pods.values())
            for key, config_map in list(self._config_maps.items()):
                number = str(users[key])
                if (config_map.metadata.annotations or {}).get(ANNOTATION, "0") != number:
                    await self._write(key, number)

    async def _write(self, key: Key, number: str) -> None:
        core = client.CoreV1Api(for_tenant(self._api, key.tenant))
        patch = {"metadata": {"annotations": {ANNOTATION: number}}}
        try:
            await core.patch_namespaced_config_map(key.name, key.namespace, patch)
        except (ApiException, OSError) as error:
            if getattr(error, "status", None) == NOT_FOUND:
                return  # deleted meanwhile: the watch says so
            logging.warning("%s: %s", "/".join(key), error)
            await asyncio.sleep(PAUSE_SECONDS)
            self._changed.set()


async def main(kubeconfig: str) -> None:
    """Run the controller with a kubeconfig of the operator's space."""
    await config.load_kube_config(kubeconfig)
    async with client.ApiClient() as api:
        await Controller(api).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
