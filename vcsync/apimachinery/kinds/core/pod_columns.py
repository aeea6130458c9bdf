"""The cells of Pods. Pure."""

from datetime import datetime
from typing import Any

from vcsync.apimachinery.wire import cells


def ready(obj: cells.Object, _: datetime) -> str:
    """Return ready and all containers as `ready/all`. Sidecars count, other init containers do not."""
    return "{}/{}".format(*_summary(obj)[:2])


def status(obj: cells.Object, _: datetime) -> Any:
    """Return the status: the phase, or the most telling reason of the Pod or its containers."""
    return _summary(obj)[2]


def restarts(obj: cells.Object, now: datetime) -> str:
    """Return the number of restarts and how long ago the last one was."""
    _, _, _, count, last = _summary(obj)
    return f"{count} ({cells.ago(last, now)} ago)" if count and last else str(count)


def gates(obj: cells.Object, _: datetime) -> str:
    """Return passed and all readiness gates as `passed/all`."""
    wanted = [each.get("conditionType") for each in cells.look(obj, "spec.readinessGates", ())]
    opened = sum(cells.is_true(obj, kind) for kind in wanted)
    return f"{opened}/{len(wanted)}" if wanted else cells.NONE


def address(obj: cells.Object, _: datetime) -> str:
    """Return the Pod's first IP address."""
    addresses = cells.look(obj, "status.podIPs", ())
    return (addresses[0].get("ip") if addresses else "") or cells.NONE


def row_conditions(obj: cells.Object) -> list[dict[str, str]]:
    """Return the conditions of a Pod's row."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = cells.look(obj, "status.phase", "")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


POD: cells.Printer = {
    "Name": cells.name,
    "Ready": ready,
    "Status": status,
    "Restarts": restarts,
    "Age": cells.age,
    "IP": address,
    "Node": cells.filled("spec.nodeName", cells.NONE),
    "Nominated Node": cells.filled("status.nominatedNodeName", cells.NONE),
    "Readiness Gates": gates,
}


def _summary(obj: cells.Object) -> tuple[int, int, str, int, str | None]:
    """Return ready and all containers, the reason shown, restarts and when the last one was."""
    phase = cells.look(obj, "status.phase", "")
    conditions = cells.look(obj, "status.conditions", ())
    reason = cells.look(obj, "status.reason") or phase
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions
    ):
        reason = "SchedulingGated"
    sidecars = _sidecars(obj)
    total = len(cells.look(obj, "spec.containers", ())) + len(sidecars)
    started, init_reason, count, last = _initialized(obj, sidecars)
    initialized = cells.is_true(obj, "Initialized")
    if init_reason and not initialized:
        reason = init_reason
    else:
        kept = [each for each in _init_statuses(obj, sidecars) if each.get("name") in sidecars]
        reason, running = _running(obj, init_reason or reason, conditions)
        started += running
        statuses = [*kept, *cells.look(obj, "status.containerStatuses", ())]
        count = sum(each.get("restartCount", 0) for each in statuses)
        last = _last(statuses)
    return started, total, _ended(obj, phase, reason), count, last


def _ended(obj: cells.Object, phase: str, reason: str) -> str:
    if cells.look(obj, "metadata.deletionTimestamp") is None:
        return reason
    if cells.look(obj, "status.reason") == "NodeLost":
        return "Unknown"
    return reason if phase in ("Succeeded", "Failed") else "Terminating"


def _sidecars(obj: cells.Object) -> set[Any]:
    """Return the names of the sidecars: init containers with restart policy Always."""
    containers = cells.look(obj, "spec.initContainers", ())
    return {each.get("name") for each in containers if each.get("restartPolicy") == "Always"}


def _init_statuses(obj: cells.Object, sidecars: set[Any]) -> list[cells.Object]:
    """Return the statuses of init containers, up to the first that is not done."""
    statuses: list[cells.Object] = list(cells.look(obj, "status.initContainerStatuses", ()))
    waiting = next((at for at, each in enumerate(statuses) if not _passed(each, sidecars)), len(statuses))
    return statuses[: waiting + 1]


def _passed(each: cells.Object, sidecars: set[Any]) -> bool:
    ended = cells.look(each, "state.terminated")
    if ended is not None and ended.get("exitCode", 0) == 0:
        return True
    return each.get("name") in sidecars and bool(each.get("started"))


def _initialized(obj: cells.Object, sidecars: set[Any]) -> tuple[int, str, int, str | None]:
    """Return ready sidecars, the reason while init containers run (empty: they are done), restarts and the last one."""
    statuses = _init_statuses(obj, sidecars)
    started, reason = 0, ""
    for at, each in enumerate(statuses):
        ended = cells.look(each, "state.terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if _passed(each, sidecars):
            started += bool(each.get("ready"))
            continue
        waiting = cells.look(each, "state.waiting.reason", "")
        if ended is not None:
            reason = f"Init:{_ending(ended)}"
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{at}/{len(cells.look(obj, 'spec.initContainers', ()))}"
    return started, reason, sum(each.get("restartCount", 0) for each in statuses), _last(statuses)


def _running(obj: cells.Object, reason: str, conditions: Any) -> tuple[str, int]:
    """Return the reason that the containers give and how many are ready."""
    running, failure = 0, ""
    for each in reversed(cells.look(obj, "status.containerStatuses", ())):
        ended = cells.look(each, "state.terminated")
        if cells.look(each, "state.waiting.reason"):
            reason = each["state"]["waiting"]["reason"]
        elif ended is not None:
            reason = _ending(ended)
            failure = reason if ended.get("exitCode", 0) else failure
        elif each.get("ready") and cells.look(each, "state.running") is not None:
            running += 1
    if reason == "Completed":
        is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
        if running and is_ready:
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    return reason, running


def _ending(ended: cells.Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _last(statuses: Any) -> str | None:
    """Return the latest time at which a restarted container had ended."""
    ends = [cells.look(each, "lastState.terminated.finishedAt") for each in statuses]
    known = [(at, text) for text in ends if (at := cells.moment(text)) is not None]
    return max(known)[1] if known else None
