"""What every namespace has: the ServiceAccount `default`, and the ConfigMap that holds the API server's authority. Pure.

Behaviour: Kubernetes' `pkg/controller/serviceaccount` and `pkg/controller/certificates/rootcacertpublisher`.
"""

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from vcsync.controllers.mirror import Key, namespace_of
from vcsync.controllers.plan import NOTHING, Action, Controller, Create, Look, Patch, Plan, Watch
from vcsync.controllers.waking import own, standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

DEFAULT = "default"
ROOT_CA = "kube-root-ca.crt"
ROOT_CA_KEY = "ca.crt"
_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
}


class _Status(Struct):
    phase: str = ""


class _Data(Struct):
    data: dict[str, str] | None = None


def is_active(namespace: Envelope | None) -> bool:
    """Whether things may still be made in a namespace."""
    return (
        namespace is not None
        and not namespace.deleting
        and decode(namespace.status, _Status).phase != "Terminating"
    )


def plan_account(look: Look, key: Key) -> Plan:
    """Make the ServiceAccount `default` where there is none."""
    if not is_active(look.of[NAMESPACES].get(key.tenant, "", key.name)):
        return NOTHING
    if look.of[SERVICE_ACCOUNTS].get(key.tenant, key.name, DEFAULT) is not None:
        return NOTHING
    return Plan([[Create(SERVICE_ACCOUNTS, key.name, {"metadata": {"name": DEFAULT}})]])


def plan_authority(authority: str, look: Look, key: Key) -> Plan:
    """Make the ConfigMap with the API server's authority, or put it right."""
    if not is_active(look.of[NAMESPACES].get(key.tenant, "", key.name)):
        return NOTHING
    data = {ROOT_CA_KEY: authority}
    there = look.of[CONFIG_MAPS].get(key.tenant, key.name, ROOT_CA)
    action: Action
    if there is None:
        metadata = {"name": ROOT_CA, "annotations": _NOTE}
        action = Create(CONFIG_MAPS, key.name, {"metadata": metadata, "data": data})
    elif decode(there.rest, _Data).data != data or not _NOTE.items() <= there.annotations.items():
        patch = [
            {"op": "add", "path": "/metadata/annotations", "value": {**there.annotations, **_NOTE}},
            {"op": "add", "path": "/data", "value": data},
        ]
        action = Patch(CONFIG_MAPS, key.name, ROOT_CA, patch, "json")
    else:
        return NOTHING
    return Plan([[action]])


def _named(name: str, change: Change, _look: Look) -> Iterable[Key]:
    envelope = standing(change)
    return [Key(envelope.tenant, "", namespace_of(envelope))] if envelope.name == name else ()


SERVICE_ACCOUNT = Controller(
    "serviceaccount-controller",
    (Watch(NAMESPACES, own), Watch(SERVICE_ACCOUNTS, partial(_named, DEFAULT))),
    plan_account,
)


def root_ca_publisher(authority: str) -> Controller:
    """Return what publishes this authority (PEM) in every namespace."""
    return Controller(
        "root-ca-certificate-publisher-controller",
        (Watch(NAMESPACES, own), Watch(CONFIG_MAPS, partial(_named, ROOT_CA))),
        partial(plan_authority, authority),
    )
