"""Networks: every tenant's `default`, the DNS Service of each, and their status. Pure.

vcsync's own controller. It serves the tenants of the pool: the operator's space and super clusters have no networks.
"""

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.api.conditions import Condition, set_condition
from vcsync.api.networks import DEFAULT_NETWORK, NETWORKS, SERVICE_PREFIX, NetworkPhase, NetworkStatus
from vcsync.controllers.framework.event_handlers import everyone, own, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Outcome,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.network import dns_service
from vcsync.kube.cache import Change
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import time_text

ENFORCED = "Enforced"
NAME_SERVER = "NameServer"
UNENFORCED = (
    "no data plane enforces networks yet: this network isolates no Pods, whatever its type and its VPC are"
)
FOUND = f"the network's Service selects the Pods of Service {names.TENANT_DNS_NAMESPACE}/{names.TENANT_DNS_SERVICE}"
NO_NAME_SERVER = (
    "nothing answers at the network's Service: install a name server with a Service "
    f"{names.TENANT_DNS_NAMESPACE}/{names.TENANT_DNS_SERVICE} that selects its Pods"
)
GATHER_SECONDS = 1.0
"""Time for which updates of one object are collected: a tenant's webhook that undoes every write cannot cause many."""
_KUBE_SYSTEM = names.TENANT_DNS_NAMESPACE


class _Data(Struct):
    data: dict[str, str] | None = None


def plan(view: View, key: Key) -> Plan:
    """Create the network `default` and the Service of a network, and write the status."""
    if not _has_networks(view, key.tenant):
        return NOTHING
    network = view.of[NETWORKS].get(*key)
    if network is None:
        if key.name != DEFAULT_NETWORK or not _has_kube_system(view, key.tenant):
            return NOTHING
        body = {"metadata": {"name": DEFAULT_NETWORK}, "spec": {"type": "Flat"}}
        return Plan([[Create(NETWORKS, "", body)]])
    service, name_server = _services(view, network)
    action = None
    if not network.deleting and _has_kube_system(view, key.tenant):
        action = dns_service.write(network, service, name_server)
    return Plan([] if action is None else [[action]], partial(_finish, key))


def _has_networks(view: View, tenant: str) -> bool:
    """Return whether a tenant has networks: the operator's space and spaces with nodes of their own have none."""
    if tenant == names.OPERATOR_SPACE:
        return False
    found = view.of[CONFIG_MAPS].get(names.OPERATOR_SPACE, _KUBE_SYSTEM, f"{tenant}.controllers")
    return found is None or (decode(found.rest, _Data).data or {}).get("nodes") != "own"


def _has_kube_system(view: View, tenant: str) -> bool:
    found = view.of[NAMESPACES].get(tenant, "", _KUBE_SYSTEM)
    return found is not None and not found.deleting


def _services(view: View, network: Envelope) -> tuple[Envelope | None, Envelope | None]:
    """Return the Service of a network's name, and that of the tenant's name server."""
    services = view.of[SERVICES]
    return (
        services.get(network.tenant, _KUBE_SYSTEM, dns_service.service_name(network.name)),
        services.get(network.tenant, _KUBE_SYSTEM, names.TENANT_DNS_SERVICE),
    )


def _finish(key: Key, view: View, outcome: Outcome) -> Iterable[Action]:
    """Write the status, if it changes."""
    network = view.of[NETWORKS].get(*key)
    if network is None:
        return
    before, after = _status(network), status_of(view, network, outcome)
    if after != before:
        shown = msgspec.to_builtins(after) | {
            "message": after.message or None,
            "dnsServiceIP": after.dns_service_ip or None,
        }
        yield status_patch(NETWORKS, network, shown)


def _status(network: Envelope) -> NetworkStatus:
    """Return the status of a network; one that cannot be read is empty. Tenants can write it."""
    try:
        return decode(network.status, NetworkStatus)
    except msgspec.ValidationError:
        return NetworkStatus()


def status_of(view: View, network: Envelope, outcome: Outcome) -> NetworkStatus:
    """Return the status of a network after its Service was written."""
    service, name_server = _services(view, network)
    found = "" if service is None or not dns_service.is_of(service, network) else dns_service.address(service)
    phase, message = _phase(network, service, found, outcome)
    set_ = partial(set_condition, now=time_text(view.now), observed_generation=network.generation)
    conditions: tuple[Condition, ...] = tuple(
        each for each in _status(network).conditions if each.type in (ENFORCED, NAME_SERVER)
    )
    conditions = set_(conditions, ENFORCED, status=False, reason="NoDataPlane", message=UNENFORCED)
    if dns_service.has_pods(name_server):
        has, reason, message_of = True, "Found", FOUND
    else:
        has, reason, message_of = False, "NoNameServer", NO_NAME_SERVER
    conditions = set_(conditions, NAME_SERVER, status=has, reason=reason, message=message_of)
    return NetworkStatus(phase=phase, message=message, dns_service_ip=found, conditions=conditions)


def _phase(
    network: Envelope, service: Envelope | None, found: str, outcome: Outcome
) -> tuple[NetworkPhase, str]:
    name = f"{_KUBE_SYSTEM}/{dns_service.service_name(network.name)}"
    if network.deleting:
        return "Terminating", f"waits for its finalizers: {', '.join(network.finalizers)}"
    if outcome.failures:
        return "Failed", f"Service {name} cannot be written: {outcome.failures[0].said}"
    if service is not None and not dns_service.is_of(service, network):
        return "Failed", f"there is another Service {name}: delete it, or give the network another name"
    if not found:
        return "Pending", f"Service {name} has no address yet; if it is of type ExternalName, delete it"
    return "Ready", ""


def _of_kube_system(change: Change, _view: View) -> Iterable[Key]:
    """Return the network `default` of a tenant whose namespace kube-system changes."""
    namespace = standing(change)
    return [Key(namespace.tenant, "", DEFAULT_NETWORK)] if namespace.name == _KUBE_SYSTEM else ()


def _of_service(change: Change, view: View) -> Iterable[Key]:
    """Return the networks that a Service concerns: one that it is named after, or all if it is the name server's."""
    service = standing(change)
    if namespace_of(service) != _KUBE_SYSTEM:
        return ()
    networks = view.of[NETWORKS]
    if service.name == names.TENANT_DNS_SERVICE:
        return [key_of(each) for each in everyone(view, NETWORKS, service.tenant)]
    network = networks.get(service.tenant, "", service.name.removeprefix(SERVICE_PREFIX))
    return [] if network is None or not service.name.startswith(SERVICE_PREFIX) else [key_of(network)]


def _gathered(change: Change, _view: View, _key: Key) -> float:
    """Return the seconds for which changes are collected: none for new and for deleted objects."""
    return 0.0 if change.old is None or change.new is None else GATHER_SECONDS


NETWORK = Controller(
    "network-controller",
    (
        Watch(NETWORKS, own, _gathered),
        Watch(NAMESPACES, _of_kube_system),
        Watch(SERVICES, _of_service, _gathered),
    ),
    plan,
    reads=(CONFIG_MAPS,),
)
