"""Reads the kubeconfig of a super cluster that the meta cluster stores."""

import base64
import binascii

import msgspec

from vcsync.api.credentials import super_credentials
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.errors import FailedError
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import SECRETS


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


async def stored_kubeconfig(meta: Client, super_id: str) -> bytes:
    """Read a super cluster's stored kubeconfig.

    Raises:
        FailedError: it is missing; the text names the remedy.
        KubeError: the meta cluster refused or did not answer.
    """
    remedy = f"register it with 'vcsync super add {super_id}'"
    try:
        super_cluster = SuperCluster.from_envelope(await meta.get(SUPER_CLUSTERS, super_id))
    except NotFound as error:
        raise FailedError(f"super cluster {super_id} does not exist; {remedy}") from error
    ref = super_credentials(super_cluster)
    where = f"Secret {ref.namespace}/{ref.name}"
    try:
        envelope = await meta.get(SECRETS, ref.name, ref.namespace)
    except NotFound as error:
        raise FailedError(f"super cluster {super_id}: {where} does not exist; {remedy}") from error
    text = msgspec.json.decode(envelope.rest or b"{}", type=_Secret).data.get(ref.key)
    if not text:
        raise FailedError(f"super cluster {super_id}: {where} has no key {ref.key}; {remedy}")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise FailedError(f"super cluster {super_id}: {where}: {ref.key} is not base64") from error
