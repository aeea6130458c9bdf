"""Identity of clusters: the UID of kube-system; a super cluster also names its id and its meta cluster."""

import msgspec

from vcsync.api.names import (
    SUPER_CLUSTER_INFO,
    SUPER_CLUSTER_INFO_KEY,
    SUPER_CLUSTER_INFO_META_KEY,
    SUPER_CLUSTER_INFO_NAMESPACE,
)
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES
from vcsync.objects.envelope import Envelope
from vcsync.registration.errors import RegistrationError


class _Info(msgspec.Struct):
    data: dict[str, str] = {}


async def cluster_uid(client: Client) -> str:
    """Return the identifier of a cluster, which never changes."""
    return (await client.get(NAMESPACES, "kube-system")).uid


async def super_cluster_info(client: Client) -> tuple[Envelope, dict[str, str]] | None:
    """Return the ConfigMap that marks a super cluster, and its data; None if it has none."""
    try:
        envelope = await client.get(CONFIG_MAPS, SUPER_CLUSTER_INFO, SUPER_CLUSTER_INFO_NAMESPACE)
    except NotFound:
        return None
    return envelope, msgspec.json.decode(envelope.rest or b"{}", type=_Info).data


async def claim_super_cluster(client: Client, super_id: str, meta_uid: str) -> None:
    """Mark a cluster as super cluster `super_id` of the given meta cluster.

    Raises:
        RegistrationError: It has another id, or belongs to another meta cluster.
    """
    wanted = {SUPER_CLUSTER_INFO_KEY: super_id, SUPER_CLUSTER_INFO_META_KEY: meta_uid}
    found = await super_cluster_info(client)
    if found is None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": SUPER_CLUSTER_INFO, "namespace": SUPER_CLUSTER_INFO_NAMESPACE},
            "data": wanted,
        }
        try:
            await client.create(CONFIG_MAPS, body, SUPER_CLUSTER_INFO_NAMESPACE)
        except AlreadyExists:
            await claim_super_cluster(client, super_id, meta_uid)
        return
    envelope, data = found
    where = f"the cluster's ConfigMap {SUPER_CLUSTER_INFO_NAMESPACE}/{SUPER_CLUSTER_INFO}"
    if data.get(SUPER_CLUSTER_INFO_KEY, super_id) != super_id:
        raise RegistrationError(
            f"{where} says it is super cluster {data[SUPER_CLUSTER_INFO_KEY]!r}, not {super_id!r}; a cluster "
            "can be in a pool once only: register it under that id, or delete the ConfigMap if it is stale"
        )
    if data.get(SUPER_CLUSTER_INFO_META_KEY, meta_uid) != meta_uid:
        raise RegistrationError(
            f"{where} says it belongs to another meta cluster (with kube-system UID "
            f"{data[SUPER_CLUSTER_INFO_META_KEY]}); remove it there first, or delete the ConfigMap if that "
            "meta cluster is gone"
        )
    if data != {**data, **wanted}:
        patch = {"metadata": {"resourceVersion": envelope.resource_version}, "data": wanted}
        await client.patch(CONFIG_MAPS, SUPER_CLUSTER_INFO, patch, SUPER_CLUSTER_INFO_NAMESPACE)


async def check_super_cluster(
    client: Client, super_id: str, meta_uid: str, unchanged: str = "nothing was removed"
) -> Envelope | None:
    """Verify that a cluster is the given super cluster of the given meta cluster, or is not marked at all.

    Args:
        client: client of the cluster.
        super_id: the expected id.
        meta_uid: UID of `kube-system` in the meta cluster.
        unchanged: the step that was not taken if it is another one, for the message.

    Returns:
        The ConfigMap that marks it.

    Raises:
        RegistrationError: It is another one.
    """
    found = await super_cluster_info(client)
    if found is None:
        return None
    envelope, data = found
    named = data.get(SUPER_CLUSTER_INFO_KEY)
    if named != super_id or data.get(SUPER_CLUSTER_INFO_META_KEY, meta_uid) != meta_uid:
        raise RegistrationError(
            f"the kubeconfig leads to super cluster {named!r}, not to {super_id!r} of this meta cluster; "
            f"{unchanged}"
        )
    return envelope


async def release_super_cluster(client: Client, super_id: str, meta_uid: str) -> None:
    """Remove the mark that `claim_super_cluster` wrote.

    Raises:
        RegistrationError: The cluster is not that super cluster.
    """
    envelope = await check_super_cluster(client, super_id, meta_uid)
    if envelope is not None:
        await client.delete(CONFIG_MAPS, SUPER_CLUSTER_INFO, SUPER_CLUSTER_INFO_NAMESPACE, uid=envelope.uid)
