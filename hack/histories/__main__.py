"""`python -m hack.histories`: plays random histories on both sides and shows those that end differently."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hack.histories import autoscalers, policies
from hack.histories.arena import arena
from hack.histories.claims import claims
from hack.histories.playing import Difference, play
from hack.histories.stories import Story, hasty, of, story

TERMINATED = 143
KINDS = ("Deployment", "StatefulSet", "Job", "Claim")


def story_of(seed: int, kind: str, steps: int) -> Story:
    """Return the history of a seed."""
    return of(seed, kind, claims, steps) if kind == "Claim" else story(seed, kind, steps)


async def differences(stories: Sequence[Story], directory: Path, at_once: int) -> list[Difference]:
    """Play histories, some concurrently; return their differences.

    Args:
        stories: the histories.
        directory: folder for data and logs.
        at_once: number of concurrent histories.
    """
    free = asyncio.Semaphore(at_once)
    async with arena(directory) as sides:

        async def one(each: Story) -> Difference | None:
            async with free:
                found = await play(each, sides)
                print(found or f"{each}: alike", flush=True)
                return found

        found = await asyncio.gather(*(one(each) for each in stories))
    return [each for each in found if each is not None]


async def _autoscalers(directory: Path) -> int:
    async with arena(directory) as sides:
        found = await autoscalers.differences(sides)
    print("\n".join([*found, f"{2 * len(autoscalers.CASES)} autoscalers, {len(found)} differ"]))
    return 1 if found else 0


async def _policies(directory: Path) -> int:
    async with arena(directory) as sides:
        found = await policies.differences(sides)
    print("\n".join([*found, f"{len(policies.CASES)} policies, {len(found)} differ"]))
    return 1 if found else 0


def main() -> int:
    """Play and count; 1 if any history ended differently."""
    parser = argparse.ArgumentParser(prog="python -m hack.histories", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="histories of each kind (default 20)")
    parser.add_argument(
        "--first", type=int, default=1, metavar="SEED", help="seed of the first one (default 1)"
    )
    parser.add_argument("--steps", type=int, default=8, help="steps of each (default 8)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only of this kind; may be repeated")
    parser.add_argument("--at-once", type=int, default=12, help="number of concurrent histories (default 12)")
    parser.add_argument(
        "--autoscalers", action="store_true", help="compare HorizontalPodAutoscalers instead (3 minutes)"
    )
    parser.add_argument(
        "--policies", action="store_true", help="compare the status of ValidatingAdmissionPolicies instead"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # No process remains.
    if options.autoscalers or options.policies:
        with tempfile.TemporaryDirectory(prefix="vcsync-histories-") as directory:
            compare = _autoscalers if options.autoscalers else _policies
            return asyncio.run(compare(Path(directory)))
    stories = [
        story_of(seed, kind, options.steps)
        for seed in range(options.first, options.first + options.count)
        for kind in options.kind or KINDS
    ]
    stories += [hasty(each.seed, each.kind) for each in stories if each.kind in ("Deployment", "StatefulSet")]
    with tempfile.TemporaryDirectory(prefix="vcsync-histories-") as directory:
        found = asyncio.run(differences(stories, Path(directory), options.at_once))
    print(f"{len(stories)} histories, {len(found)} ended differently")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
