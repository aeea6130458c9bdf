"""ServiceCIDRs: each is ready as soon as it exists, since the API server allocates from it at once. Pure.

Behaviour: Kubernetes' `pkg/controller/servicecidrs`, without its finalizer. A ServiceCIDR can be deleted while Services have
addresses of it; they keep them.
"""

from collections.abc import Iterable

from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import NOTHING, Controller, Plan, View, Watch, status_patch
from vcsync.kube.cache import Change
from vcsync.kube.resources import SERVICE_CIDRS
from vcsync.objects.envelope import untyped
from vcsync.objects.times import time_text

READY = "Ready"
_MESSAGE = "Kubernetes Service CIDR is ready"


def plan(view: View, key: Key) -> Plan:
    """Write the condition Ready."""
    found = view.of[SERVICE_CIDRS].get(*key)
    if found is None or found.deleting:
        return NOTHING
    before = (untyped(found.status).get("conditions") if found.status else None) or []
    if any(each["type"] == READY and each["status"] == "True" for each in before):
        return NOTHING
    others = [each for each in before if each["type"] != READY]
    ready = {
        "type": READY,
        "status": "True",
        "lastTransitionTime": time_text(view.now),
        "reason": "",
        "message": _MESSAGE,
    }
    return Plan([[status_patch(SERVICE_CIDRS, found, {"conditions": [*others, ready]}, unchanged=True)]])


def _written(change: Change, _: View) -> Iterable[Key]:
    return [] if change.new is None else [key_of(change.new)]


SERVICE_CIDR = Controller("service-cidr-controller", (Watch(SERVICE_CIDRS, _written),), plan)
"""Conditions of ServiceCIDRs."""
