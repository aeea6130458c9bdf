"""Locations of the kubeconfigs of tenants and super clusters. The caller reads the Secrets."""

import base64
import binascii

from vcsync.api import names
from vcsync.api.objects import InvalidObject, SuperCluster, VirtualCluster, cluster_key
from vcsync.api.specs import SecretRef


def inline_kubeconfig(vc: VirtualCluster) -> bytes | None:
    """Return the kubeconfig in the VirtualCluster's annotation, decoded from base64, or None if it is absent.

    Raises:
        InvalidObject: the annotation is not base64. The message does not repeat it, because it is a secret.
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
    """Return the Secrets that may hold the tenant's kubeconfig for `role`; the caller uses the first that exists.

    The role's own credentials come first. VirtualCluster's look-up follows (its reference, section 1.4): the
    kubeconfig in the VirtualCluster's annotation (the caller tries `inline_kubeconfig` before the second
    entry), then the Secret named by an annotation, or `admin-kubeconfig`. All are in the root namespace.

    Raises:
        InvalidName: the VirtualCluster has no valid cluster key.
    """
    root = cluster_key(vc)
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
    """Return the Secret in the meta cluster that holds a super cluster's kubeconfig."""
    configured = super_cluster.spec.kubeconfig_secret_ref
    return configured or SecretRef(name=names.super_secret(super_cluster.spec.id))
