"""The cells of Pods. Pure."""

from datetime import datetime
from typing import Any

from vcsync.controlplane.wire.printers.cells import (
    NONE,
    Object,
    Printer,
    age,
    ago,
    filled,
    is_true,
    look,
    moment,
    name,
)


def ready(obj: Object, _: datetime) -> str:
    """Count ready containers, init containers that go on running among them."""
    return "{}/{}".format(*_summary(obj)[:2])


def status(obj: Object, _: datetime) -> Any:
    """Return the phase, or what tells more."""
    return _summary(obj)[2]


def restarts(obj: Object, now: datetime) -> str:
    """Count restarts and say when the last one was."""
    _, _, _, count, last = _summary(obj)
    return f"{count} ({ago(last, now)} ago)" if count and last else str(count)


def gates(obj: Object, _: datetime) -> str:
    """Count open readiness gates."""
    wanted = [each.get("conditionType") for each in look(obj, "spec.readinessGates", ())]
    opened = sum(is_true(obj, kind) for kind in wanted)
    return f"{opened}/{len(wanted)}" if wanted else NONE


def address(obj: Object, _: datetime) -> str:
    """Return the first IP."""
    addresses = look(obj, "status.podIPs", ())
    return (addresses[0].get("ip") if addresses else "") or NONE


def row_conditions(obj: Object) -> list[dict[str, str]]:
    """Return the conditions of a Pod's row."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = look(obj, "status.phase", "")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


POD: Printer = {
    "Name": name,
    "Ready": ready,
    "Status": status,
    "Restarts": restarts,
    "Age": age,
    "IP": address,
    "Node": filled("spec.nodeName", NONE),
    "Nominated Node": filled("status.nominatedNodeName", NONE),
    "Readiness Gates": gates,
}


def _summary(obj: Object) -> tuple[int, int, str, int, str | None]:
    """Return ready and all containers, the reason shown, restarts and when the last one was."""
    phase = look(obj, "status.phase", "")
    conditions = look(obj, "status.conditions", ())
    reason = look(obj, "status.reason") or phase
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions
    ):
        reason = "SchedulingGated"
    sidecars = _sidecars(obj)
    total = len(look(obj, "spec.containers", ())) + len(sidecars)
    started, init_reason, count, last = _initialized(obj, sidecars)
    initialized = is_true(obj, "Initialized")
    if init_reason and not initialized:
        reason = init_reason
    else:
        kept = [each for each in _init_statuses(obj, sidecars) if each.get("name") in sidecars]
        reason, running = _running(obj, init_reason or reason, conditions)
        started += running
        statuses = [*kept, *look(obj, "status.containerStatuses", ())]
        count = sum(each.get("restartCount", 0) for each in statuses)
        last = _last(statuses)
    return started, total, _ended(obj, phase, reason), count, last


def _ended(obj: Object, phase: str, reason: str) -> str:
    if look(obj, "metadata.deletionTimestamp") is None:
        return reason
    if look(obj, "status.reason") == "NodeLost":
        return "Unknown"
    return reason if phase in ("Succeeded", "Failed") else "Terminating"


def _sidecars(obj: Object) -> set[Any]:
    """Return the names of the init containers that go on running."""
    containers = look(obj, "spec.initContainers", ())
    return {each.get("name") for each in containers if each.get("restartPolicy") == "Always"}


def _init_statuses(obj: Object, sidecars: set[Any]) -> list[Object]:
    """Return the statuses of init containers up to the first that is not done."""
    statuses: list[Object] = list(look(obj, "status.initContainerStatuses", ()))
    waiting = next((at for at, each in enumerate(statuses) if not _passed(each, sidecars)), len(statuses))
    return statuses[: waiting + 1]


def _passed(each: Object, sidecars: set[Any]) -> bool:
    ended = look(each, "state.terminated")
    if ended is not None and ended.get("exitCode", 0) == 0:
        return True
    return each.get("name") in sidecars and bool(each.get("started"))


def _initialized(obj: Object, sidecars: set[Any]) -> tuple[int, str, int, str | None]:
    """Return ready sidecars, the reason while init containers run (empty: they are done), restarts and the last one."""
    statuses = _init_statuses(obj, sidecars)
    started, reason = 0, ""
    for at, each in enumerate(statuses):
        ended = look(each, "state.terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if _passed(each, sidecars):
            started += bool(each.get("ready"))
            continue
        waiting = look(each, "state.waiting.reason", "")
        if ended is not None:
            reason = f"Init:{_ending(ended)}"
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{at}/{len(look(obj, 'spec.initContainers', ()))}"
    return started, reason, sum(each.get("restartCount", 0) for each in statuses), _last(statuses)


def _running(obj: Object, reason: str, conditions: Any) -> tuple[str, int]:
    """Return the reason that the containers give and how many are ready."""
    running, failure = 0, ""
    for each in reversed(look(obj, "status.containerStatuses", ())):
        ended = look(each, "state.terminated")
        if look(each, "state.waiting.reason"):
            reason = each["state"]["waiting"]["reason"]
        elif ended is not None:
            reason = _ending(ended)
            failure = reason if ended.get("exitCode", 0) else failure
        elif each.get("ready") and look(each, "state.running") is not None:
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


def _ending(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _last(statuses: Any) -> str | None:
    """Return when the last of the containers that were restarted had ended."""
    ends = [look(each, "lastState.terminated.finishedAt") for each in statuses]
    known = [(at, text) for text in ends if (at := moment(text)) is not None]
    return max(known)[1] if known else None
