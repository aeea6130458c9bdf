"""The Events by which a kubelet tells what happens to containers. Pure.

Behaviour: Kubernetes' `pkg/kubelet/kuberuntime/kuberuntime_container.go` and `pkg/kubelet/images/image_manager.go`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from vcsync.simulate.reports import Container, Spec, Status


class ContainerEvent(NamedTuple):
    """One Event about a container: the path of its field in the Pod, the reason and the message."""

    field_path: str
    reason: str
    message: str


def begun(spec: Spec, before: Status, report: Mapping[str, Any]) -> list[ContainerEvent]:
    """Return the Events of the containers that a report says have started.

    Args:
        spec: the Pod's spec.
        before: its status before the report.
        report: the report.
    """
    if report.get("phase") == "Running":
        return [*_started("initContainers", spec.init_containers), *_started("containers", spec.containers)]
    known = {each.name: each.restart_count for each in before.container_statuses or ()}
    again = {
        each["name"]
        for each in report.get("containerStatuses") or ()
        if "running" in each["state"] and each["restartCount"] > known.get(each["name"], 0)
    }
    return list(_started("containers", [each for each in spec.containers or () if each.name in again]))


def stopping(spec: Spec) -> list[ContainerEvent]:
    """Return the Events of the containers of a Pod that is deleted."""
    return [
        ContainerEvent(_path("containers", each), "Killing", f"Stopping container {each.name}")
        for each in spec.containers or ()
    ]


def _started(field: str, containers: Iterable[Container] | None) -> Iterator[ContainerEvent]:
    for each in containers or ():
        there = f'Container image "{each.image}" already present on machine and can be accessed by the pod'
        yield ContainerEvent(_path(field, each), "Pulled", there)
        yield ContainerEvent(_path(field, each), "Created", "Container created")
        yield ContainerEvent(_path(field, each), "Started", "Container started")


def _path(field: str, container: Container) -> str:
    return f"spec.{field}{{{container.name}}}"
