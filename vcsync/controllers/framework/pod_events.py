"""Events about the creation and deletion of Pods by a controller. Pure."""

from collections.abc import Iterable

from vcsync.controllers.framework.plan import Create, Delete, Emit, Outcome
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PODS


def pod_events(about: ObjectRef, outcome: Outcome) -> Iterable[Emit]:
    """Report created and deleted Pods, and failures, with kube-controller-manager's messages."""
    for action in outcome.done:
        if isinstance(action, Create) and action.resource is PODS:
            yield Emit(about, "Normal", "SuccessfulCreate", f"Created pod: {action.body['metadata']['name']}")
        elif isinstance(action, Delete) and action.resource is PODS:
            yield Emit(about, "Normal", "SuccessfulDelete", f"Deleted pod: {action.name}")
    for failure in outcome.failures:
        if isinstance(failure.action, Create) and failure.action.resource is PODS:
            yield Emit(about, "Warning", "FailedCreate", f"Error creating: {failure.said}")
        elif isinstance(failure.action, Delete) and failure.action.resource is PODS:
            yield Emit(about, "Warning", "FailedDelete", f"Error deleting: {failure.said}")
