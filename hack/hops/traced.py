"""Runs a `vcsync` command in this process, and writes when syncers receive, begin, send and get answers.

`python hack/hops/traced.py FILE COMMAND...`. It runs as a file, so that the path of modules decides which version is measured,
and uses only names that older versions have as well.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

Note = Callable[..., None]
"""Takes the name of a step and its fields."""
_sending: ContextVar[dict[str, Any] | None] = ContextVar("sending", default=None)


def main(arguments: Sequence[str]) -> int:
    """Run a command, and write its steps when it has ended."""
    file, *command = arguments
    notes: list[dict[str, Any]] = []

    def note(step: str, **fields: Any) -> None:
        notes.append({"step": step, "at": time.monotonic(), **fields})

    _trace(note)
    from vcsync.cli.command.main import main as run  # noqa: PLC0415 - after it is traced

    try:
        return run(command)
    finally:
        Path(file).write_text("".join(f"{json.dumps(each)}\n" for each in notes))


def _trace(note: Note) -> None:
    from vcsync.fairqueue import WorkerPool  # noqa: PLC0415 - of the version that is measured
    from vcsync.kube.client import Client  # noqa: PLC0415
    from vcsync.syncer.executor import Executor  # noqa: PLC0415
    from vcsync.syncer.reconcile import Reconciler  # noqa: PLC0415

    arrived: dict[Any, float] = {}
    events, add, reconcile = Client._events, WorkerPool.add, Reconciler.reconcile
    execute, request = Executor.execute, Client.request

    @wraps(events)
    def received(self: Any, lines: Any, path: str) -> Any:
        if path.endswith("/pods"):
            # The task that reads the chunk applies its events without a pause.
            arrived[asyncio.current_task()] = time.monotonic()
        return events(self, lines, path)

    @wraps(add)
    def added(self: Any, group: str, item: Any, priority: bool = False) -> None:
        if self.name.startswith("syncer-") and item.kind == "pods":
            at = arrived.get(asyncio.current_task())
            note("received", pod=item.name, arrived=at)
        add(self, group, item, priority)

    @wraps(reconcile)
    async def began(self: Any, item: Any) -> Any:
        if item.kind == "pods":
            note("began", pod=item.name)
        return await reconcile(self, item)

    @wraps(execute)
    async def executed(self: Any, action: Any, *arguments: Any, **options: Any) -> None:
        step = _step(action)
        if step is None:
            return await execute(self, action, *arguments, **options)
        _sending.set(step)
        try:
            return await execute(self, action, *arguments, **options)
        finally:
            note("answered", sent=step.get("sent"), **step["about"])
            _sending.set(None)

    @wraps(request)
    async def requested(self: Any, method: str, *arguments: Any, **options: Any) -> Any:
        step = _sending.get()
        if step is not None and method != "GET":
            step.setdefault("sent", time.monotonic())
            step["about"]["writes"] += 1
        return await request(self, method, *arguments, **options)

    patched: tuple[tuple[Any, str, Callable[..., Any] | Callable[..., Awaitable[Any]]], ...] = (
        (Client, "_events", received),
        (WorkerPool, "add", added),
        (Reconciler, "reconcile", began),
        (Executor, "execute", executed),
        (Client, "request", requested),
    )
    for owner, name, replacement in patched:
        setattr(owner, name, replacement)


def _step(action: Any) -> dict[str, Any] | None:
    """Return what is noted of an action on a Pod: a creation in the super cluster, or a binding or status in the tenant."""
    kind = type(action).__name__
    if kind == "Create" and action.side == "super" and action.resource.plural == "pods":
        return {
            "about": {"pod": action.body["metadata"]["name"], "what": "create", "writes": 0, "runs": False}
        }
    if kind == "Bind":
        patch = getattr(action, "status", None) or {}
    elif kind == "Patch" and action.side == "tenant" and action.resource.plural == "pods":
        patch = action.patch
    else:
        return None
    runs = (patch.get("status") or {}).get("phase") == "Running"
    return {"about": {"pod": action.name, "what": kind.lower(), "writes": 0, "runs": runs}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
