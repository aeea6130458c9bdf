"""Where the kubeconfigs of tenants and super clusters stand; looking there is the caller's business."""

import base64
import binascii

from vcsync.api import names
from vcsync.api.objects import InvalidObject, SuperCluster, VirtualCluster
from vcsync.api.specs import SecretRef


def inline_kubeconfig(vc: VirtualCluster) -> bytes | None:
    """Return the kubeconfig in the VirtualCluster's annotation (base64 there), None if there is none.

    Raises:
        InvalidObject: the annotation is no base64; its text is not repeated, as it is a secret.
    """
    text = vc.annotations.get(names.ADMIN_KUBECONFIG)
    if not text:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise InvalidObject(
            f"VirtualCluster {vc.namespace}/{vc.name}: annotation {names.ADMIN_KUBECONFIG} is not base64: "
            "write `base64 -w0 < kubeconfig` into it, or remove it"
        ) from error


def credentials_lookup(vc: VirtualCluster, role: str) -> tuple[SecretRef, ...]:
    """Name the Secrets that may hold the tenant's kubeconfig for `role`; the first that exists counts.

    The role's own credentials come first. VirtualCluster's look-up follows (its reference, section 1.4): the
    kubeconfig in the VirtualCluster's annotation (see `inline_kubeconfig`, which is asked before the second
    entry), the Secret named by an annotation, else `admin-kubeconfig`; all in the root namespace.

    Raises:
        InvalidName: the VirtualCluster has no valid cluster key.
    """
    root = names.cluster_key(vc)
    own = SecretRef(namespace=root, name=names.role_secret(role), key=names.KUBECONFIG_KEY)
    if vc.annotations.get(names.ADMIN_KUBECONFIG):
        return (own,)
    named = vc.annotations.get(names.SECRET_ADMIN_KUBECONFIG)
    if named:
        return (own, SecretRef(namespace=root, name=named, key=names.CAPI_KUBECONFIG_KEY))
    return (
        own,
        SecretRef(namespace=root, name=names.ADMIN_KUBECONFIG_SECRET, key=names.ADMIN_KUBECONFIG_SECRET),
    )


def super_credentials(super_cluster: SuperCluster) -> SecretRef:
    """Name the Secret in the meta cluster that holds a super cluster's kubeconfig."""
    given = super_cluster.spec.kubeconfig_secret_ref
    return given or SecretRef(name=names.super_secret(super_cluster.spec.id))
