"""Objects of every namespace: the ServiceAccount `default`, and the ConfigMap with the API server's authority. Pure.

Behaviour: Kubernetes' `pkg/controller/serviceaccount` and `pkg/controller/certificates/rootcacertpublisher`.
"""

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import own, standing
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Create, Patch, Plan, View, Watch
from vcsync.kube.cache import Change
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from vcsync.objects.envelope import Envelope, decode

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
    """Return whether objects may still be created in a namespace."""
    return (
        namespace is not None
        and not namespace.deleting
        and decode(namespace.status, _Status).phase != "Terminating"
    )


def plan_account(view: View, key: Key) -> Plan:
    """Create the ServiceAccount `default` if it is missing."""
    if not is_active(view.of[NAMESPACES].get(key.tenant, "", key.name)):
        return NOTHING
    if view.of[SERVICE_ACCOUNTS].get(key.tenant, key.name, DEFAULT) is not None:
        return NOTHING
    return Plan([[Create(SERVICE_ACCOUNTS, key.name, {"metadata": {"name": DEFAULT}})]])


def plan_authority(authority: str, view: View, key: Key) -> Plan:
    """Create or repair the ConfigMap with the API server's authority."""
    if not is_active(view.of[NAMESPACES].get(key.tenant, "", key.name)):
        return NOTHING
    data = {ROOT_CA_KEY: authority}
    there = view.of[CONFIG_MAPS].get(key.tenant, key.name, ROOT_CA)
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


def _named(name: str, change: Change, _look: View) -> Iterable[Key]:
    envelope = standing(change)
    return [Key(envelope.tenant, "", namespace_of(envelope))] if envelope.name == name else ()


SERVICE_ACCOUNT = Controller(
    "serviceaccount-controller",
    (Watch(NAMESPACES, own), Watch(SERVICE_ACCOUNTS, partial(_named, DEFAULT))),
    plan_account,
)


def root_ca_publisher(authority: str) -> Controller:
    """Return the controller that publishes this authority (PEM) in every namespace."""
    return Controller(
        "root-ca-certificate-publisher-controller",
        (Watch(NAMESPACES, own), Watch(CONFIG_MAPS, partial(_named, ROOT_CA))),
        partial(plan_authority, authority),
    )
