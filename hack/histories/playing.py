"""Plays a history on both sides, and reports the first difference."""

import asyncio
import difflib
import json
import time
from dataclasses import dataclass
from typing import Any

from hack.histories.arena import Side
from hack.histories.stories import NAME, Step, Story, Write
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import DEPLOYMENTS, JOBS, NAMESPACES, SERVICE_ACCOUNTS, STATEFUL_SETS

PATIENCE = 120.0
"""Seconds after which a difference between the sides is reported."""
POLL_SECONDS = 0.25
QUIET_POLLS = 6
"""Number of consecutive checks without a change on either side."""
RESOURCES = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS, "Job": JOBS}


@dataclass(frozen=True)
class Difference:
    """The step at which the two sides differed; `text` shows the difference."""

    story: Story
    step: int
    text: str

    def __str__(self) -> str:
        steps = "\n".join(
            f"  {'>' if at == self.step else ' '} {each.text}" for at, each in enumerate(self.story.steps)
        )
        return f"{self.story}, step {self.step}:\n{steps}\n{self.text}"


async def play(story: Story, sides: tuple[Side, Side]) -> Difference | None:
    """Play a history; None: both sides were equal after each of its steps.

    Raises:
        KubeError: one side refuses a write that the other accepts.
    """
    namespace = f"{story.kind.lower()}-{story.seed}{'-hasty' if story.hasty else ''}"
    await asyncio.gather(*(prepare(side.client, namespace) for side in sides))
    for at, step in enumerate(story.steps):
        await asyncio.gather(*(_do(story, step, side, namespace) for side in sides))
        if story.hasty and at + 1 < len(story.steps):
            continue
        difference = await _alike(sides, namespace, last=story.hasty)
        if difference:
            return Difference(story, at, difference)
    await asyncio.gather(*(side.client.delete(NAMESPACES, namespace) for side in sides))
    return None


async def prepare(client: Client, namespace: str) -> None:
    """Create a namespace, and wait until Pods can be created there."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.get(SERVICE_ACCOUNTS, "default", namespace)
            except NotFound:
                await asyncio.sleep(POLL_SECONDS)
            else:
                return


async def _do(story: Story, step: Step, side: Side, namespace: str) -> None:
    if step.create is not None:
        body = {"metadata": {"name": NAME}, "spec": step.create}
        await side.client.create(RESOURCES[story.kind], body, namespace)
    if step.patch:
        await side.client.patch(RESOURCES[story.kind], NAME, step.patch, namespace)
    for each in step.writes:
        await _write(each, side.client, namespace)
    if step.kubelet:
        await side.kubelet.act(namespace, *step.kubelet)


async def _write(write: Write, client: Client, namespace: str) -> None:
    name = write.name.replace("@", namespace)
    where = namespace if write.resource.namespaced else ""
    change = json.loads(json.dumps(write.create or write.patch).replace("@", namespace))
    if write.create is not None:
        metadata = {**change.get("metadata", {}), "name": name}
        await client.create(write.resource, {**change, "metadata": metadata}, where)
    elif write.patch is not None:
        await client.patch(write.resource, name, change, where)
    else:
        await client.delete(write.resource, name, where)


async def _alike(sides: tuple[Side, Side], namespace: str, *, last: bool) -> str:
    """Wait until both sides are quiet and equal; return their difference if that takes too long."""
    end = time.monotonic() + PATIENCE
    quiet, mark = 0, None
    while True:
        marks = [side.mark(namespace) for side in sides]
        quiet, mark = (quiet + 1, mark) if marks == mark else (0, marks)
        one, other = (side.state(namespace, last=last) for side in sides)
        rest = all(side.rests(namespace) for side in sides)
        if quiet >= QUIET_POLLS and rest and one == other:
            return ""
        if time.monotonic() > end:
            return (
                shown(one, other) if one != other else f"no rest: {[side.rests(namespace) for side in sides]}"
            )
        await asyncio.sleep(POLL_SECONDS)


def shown(one: Any, other: Any) -> str:
    """Return the difference of two JSON values."""
    left, right = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (one, other))
    return "\n".join(difflib.unified_diff(left, right, "theirs", "ours", lineterm="", n=4))
