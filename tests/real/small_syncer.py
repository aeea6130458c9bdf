"""`python -m tests.real.small_syncer FLAGS`: a small syncer for VirtualClusters, to test what the benchmark gives to one.

It takes the flags of VirtualCluster's syncer and finds its tenant as that does: in the VirtualClusters and Secrets of its
super cluster. It polls, and carries Pods down and their status up. It says nothing about the cost of any other syncer.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from vcsync.api import names
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound
from vcsync.kube.resources import NAMESPACES, NODES, PODS, SECRETS, Resource

POLL_SECONDS = 0.1

Json = dict[str, Any]


async def main(kubeconfig: Path, end_at: str) -> None:
    """Sync the first running tenant, until it has a Pod named `end_at`."""
    async with Client(Connection.from_kubeconfig_file(kubeconfig), name="super") as here:
        [tenant] = [
            each for each in await listed(here, VIRTUAL_CLUSTERS) if each["status"]["phase"] == "Running"
        ]
        key = tenant["status"]["clusterNamespace"]
        path = SECRETS.path(namespace=key, name=names.ADMIN_KUBECONFIG_SECRET)
        secret = json.loads(await here.request("GET", path))["data"][names.ADMIN_KUBECONFIG_SECRET]
        connection = Connection.from_kubeconfig_bytes(base64.b64decode(secret))
        async with Client(connection, name="tenant") as above:
            while True:
                await sync(above, here, key, end_at)
                await asyncio.sleep(POLL_SECONDS)


async def sync(above: Client, here: Client, key: str, end_at: str) -> None:
    """Compare all Pods of the tenant and their copies once."""
    copies = {named(each): each for each in await listed(here, PODS)}
    for pod in await listed(above, PODS):
        namespace, name = named(pod)
        if name == end_at:
            sys.exit(4)
        space = names.super_namespace(key, namespace)
        copy = copies.get((space, name))
        if "deletionTimestamp" in pod["metadata"]:
            await remove(above, here, pod, copy)
        elif copy is None:
            await carry_down(here, pod, space, key)
        elif copy.get("status", {}).get("phase") == "Running" and pod["status"]["phase"] == "Pending":
            await carry_up(above, pod, copy)


async def carry_down(here: Client, pod: Json, space: str, key: str) -> None:
    """Create the copy of a Pod, and its namespace. Without its ServiceAccount the Pod is tried again."""
    marks = {names.CLUSTER: key, names.NAMESPACE: pod["metadata"]["namespace"]}
    with suppress(AlreadyExists):
        await here.create(NAMESPACES, {"metadata": {"name": space, "annotations": marks}})
    [container] = pod["spec"]["containers"]
    spec = {
        "automountServiceAccountToken": False,
        "containers": [{field: container[field] for field in ("name", "image", "resources")}],
    }
    meta = {"name": pod["metadata"]["name"], "annotations": marks}
    with suppress(AlreadyExists, Conflict, NotFound, PermissionError):
        await here.create(PODS, {"metadata": meta, "spec": spec}, space)


async def carry_up(above: Client, pod: Json, copy: Json) -> None:
    """Bind a Pod to the node of its copy, and give it the status of its copy."""
    (namespace, name), node = named(pod), copy["spec"]["nodeName"]
    with suppress(AlreadyExists):
        await above.create(NODES, {"metadata": {"name": node}})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    await above.create(PODS, binding, namespace, name=name, subresource="binding")
    await above.patch(PODS, name, {"status": copy["status"]}, namespace, subresource="status")


async def remove(above: Client, here: Client, pod: Json, copy: Json | None) -> None:
    """Delete the copy of a Pod, and then the Pod."""
    namespace, name = named(pod)
    with suppress(NotFound):
        if copy is None:
            await above.delete(PODS, name, namespace, grace_seconds=0)
        else:
            await here.delete(PODS, name, copy["metadata"]["namespace"], grace_seconds=0)


async def listed(client: Client, resource: Resource) -> list[Json]:
    """List a collection in all namespaces."""
    answer: Json = json.loads(await client.request("GET", resource.path()))
    return list(answer["items"])


def named(body: Json) -> tuple[str, str]:
    """Return an object's namespace and name."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def options() -> argparse.Namespace:
    """Parse the flags; an unknown one ends the program."""
    parser = argparse.ArgumentParser(prog="small-syncer")
    parser.add_argument("--super-master-kubeconfig", type=Path, required=True)
    parser.add_argument("--leader-elect", choices=("false",), required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--feature-gates", default="")
    parser.add_argument("--end-at", default="", help="name of a Pod at which it ends with exit code 4")
    return parser.parse_args()


if __name__ == "__main__":
    given = options()
    asyncio.run(main(given.super_master_kubeconfig, given.end_at))
