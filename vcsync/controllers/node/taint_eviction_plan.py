"""Deletes Pods that do not, or no longer, tolerate the NoExecute taints of their node.

Behaviour: Kubernetes' `pkg/controller/tainteviction`. As upstream, the time that a Pod has tolerated a taint counts from
when this process first saw both, so a restart starts the count again.
"""

from collections.abc import Iterable
from datetime import datetime

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import everywhere, standing
from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Delete,
    Emit,
    Patch,
    Plan,
    View,
    Watch,
)
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import NAMESPACES, NODES, PODS
from vcsync.objects.conditions import find_condition
from vcsync.objects.envelope import Envelope
from vcsync.objects.taints import NO_EXECUTE, of_node, of_pod, tolerated_seconds
from vcsync.objects.times import time_text

NAME = "taint-eviction-controller"
REASON = "TaintManagerEviction"
_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class TaintEviction:
    """Remembers since when Pods have tolerated taints that they tolerate for a limited time."""

    def __init__(self) -> None:
        self._since: dict[Key, tuple[str, datetime]] = {}

    def plan(self, view: View, key: Key) -> Plan:
        """Delete a Pod that does not tolerate its node's taints, or whose toleration has expired."""
        pod = view.of[PODS].get(*key)
        if pod is None or pod.deleting:
            self._since.pop(key, None)
            return NOTHING
        name = pods.spec(pod).node_name
        node = view.of[NODES].get(key.tenant, "", name) if name else None
        if node is None:
            # The Pod garbage collection handles Pods of nodes that are gone.
            return NOTHING
        seconds = tolerated_seconds(of_node(node, NO_EXECUTE), of_pod(pod))
        if seconds is None:
            return self._calm(key, pod)
        known = self._since.get(key)
        since = known[1] if known is not None and known[0] == pod.uid else view.now
        left = seconds - (view.now - since).total_seconds()
        if left > 0:
            self._since[key] = pod.uid, since
            return Plan(again=left)
        return _deletion(view, key, pod)

    def _calm(self, key: Key, pod: Envelope) -> Plan:
        """Report that a planned deletion of a Pod is cancelled."""
        known = self._since.pop(key, None)
        if known is None or known[0] != pod.uid:
            return NOTHING
        message = f"Cancelling deletion of Pod {key.namespace}/{key.name}"
        return Plan([[Emit(_about(key), "Normal", REASON, message)]])


def _deletion(view: View, key: Key, pod: Envelope) -> Plan:
    actions: list[Action] = [
        Emit(_about(key), "Normal", REASON, f"Marking for deletion Pod {key.namespace}/{key.name}")
    ]
    there = find_condition(pods.status(pod).conditions, _CONDITION["type"])
    same = there is not None and all(
        getattr(there, part) == _CONDITION[part] for part in ("status", "reason", "message")
    )
    if not same:
        kept = there is not None and there.status == "True"
        at = there.last_transition_time if there is not None and kept else time_text(view.now)
        condition = {**_CONDITION, "lastTransitionTime": at, "observedGeneration": pod.generation or None}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        actions.append(Patch(PODS, key.namespace, key.name, patch, "strategic", "status"))
    actions.append(Delete(PODS, key.namespace, key.name, pod.uid))
    return Plan([[each] for each in actions])


def _about(key: Key) -> ObjectRef:
    return ObjectRef("v1", "Pod", key.name, key.namespace)


def _pod(change: Change, view: View) -> Iterable[Key]:
    """Return the Pod itself if it is on a tainted node, is gone, or has another node."""
    pod = standing(change)
    if change.new is None:
        return [key_of(pod)]
    if change.old is not None and change.old.spec == pod.spec and change.old.deleting == pod.deleting:
        return ()
    name = pods.spec(pod).node_name
    node = view.of[NODES].get(pod.tenant, "", name) if name else None
    return [key_of(pod)] if node is not None and of_node(node, NO_EXECUTE) else ()


def _node(change: Change, view: View) -> Iterable[Key]:
    """Return all Pods of a node whose NoExecute taints change."""
    node = change.new
    if node is None:
        return
    before = () if change.old is None else of_node(change.old, NO_EXECUTE)
    if of_node(node, NO_EXECUTE) == before:
        return
    name = node.name.encode()
    for pod in everywhere(view, PODS, node.tenant):
        if name in pod.spec and pods.spec(pod).node_name == node.name:
            yield key_of(pod)


def taint_eviction() -> Controller:
    """Return the controller."""
    return Controller(
        NAME, (Watch(PODS, _pod), Watch(NODES, _node)), TaintEviction().plan, reads=(NAMESPACES,)
    )
