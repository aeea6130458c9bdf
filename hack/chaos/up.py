"""A run of `vcsync up` with users in its tenants, whose process is killed again and again, then an audit at rest.

The control planes and the Pod scheduler share the process, so Pods are placed when they are created.
"""

import asyncio
import http.client
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hack.audit import Finding, World, audit, read_world
from hack.audit.read import Connection, Kubeconfig, ReadError
from hack.chaos.churn import Churn
from hack.chaos.witness import PODS, Witness
from tests.real.up_kit import Up

TENANTS = ("acme", "initech", "umbrella")
SUPERS = ("r1", "r2", "r3")
NODES = 2
PAUSE = 1.2
"""Maximum seconds between two actions of one tenant."""
SHORTEST_LIFE, LONGEST_LIFE = 3.0, 15.0
"""Bounds of the seconds until the process is killed."""
LONGEST_DEATH = 2.0
LOOK_AGAIN_SECONDS = 3.0

Report = Callable[[str], None]


@dataclass
class Outcome:
    """The result of a run."""

    findings: list[Finding] = field(default_factory=list)
    """Differences that remained when the time to settle was over."""
    kills: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    """Answers to users that no user should get."""
    twice: list[Finding] = field(default_factory=list)
    """Two copies of one Pod, or of one name, that may have run at the same moment."""
    copies: int = 0
    """Number of copies that have had a node."""
    compared: int = 0
    """Objects of super clusters that the last audit compared; an empty audit would be clean, too."""


class Tenant:
    """A tenant of `vcsync up`, for its users."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        self.name, self._kubeconfig = name, kubeconfig

    @contextmanager
    def session(self, timeout: float) -> Iterator["Session"]:
        """Open a connection as the tenant's administrator."""
        kubeconfig = Kubeconfig(self.name, self._kubeconfig)
        with kubeconfig.connect() as connection:
            connection.http.timeout = timeout
            yield Session(connection, urlsplit(kubeconfig.server).path)


class Session:
    """A persistent connection to a tenant's API server; after a failure, the next call reopens it."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection, self._path = connection, path

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; return the status code and the decoded JSON (or text) of the answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        payload = None if body is None else json.dumps(body)
        headers = {**self._connection.headers, "Content-Type": kind}
        connection = self._connection.http
        try:
            connection.request(method, self._path + path, payload, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        return answer.status, json.loads(
            text
        ) if answer.headers.get_content_type() == "application/json" else text


def storm(folder: Path, seed: int, seconds: float, settle_seconds: float, report: Report) -> Outcome:
    """Run `vcsync up` with users and kills.

    Args:
        folder: for data and logs.
        seed: determines actions and kills, as long as the answers are the same.
        seconds: minimum duration of the kills.
        settle_seconds: time that the system may take to settle afterwards.
        report: called with lines of progress.
    """
    up, outcome = Up(folder), Outcome()
    try:
        _start(up)
        churns = {
            name: Churn(
                Tenant(name, up.data / f"{name}.kubeconfig"),
                seed,
                pause=PAUSE,
                super_ids=SUPERS,
                outages=True,
                store_lost=True,
            )
            for name in TENANTS
        }
        spaces = {
            name: Kubeconfig(name, up.data / f"{name}.kubeconfig") for name in ("admin", *TENANTS, *SUPERS)
        }
        tenants, supers = ({name: spaces[name] for name in names} for names in (TENANTS, SUPERS))
        witness = Witness(spaces["admin"], tenants, supers, (PODS,))
        with _watching(witness):
            _rage(up, churns, random.Random(seed), seconds, outcome)  # noqa: S311
            report(f"quiet after {sum(outcome.actions.values())} actions and {outcome.kills} kills")
            _settle(up, churns, settle_seconds, outcome, report)
        outcome.twice, outcome.copies = list(witness.copies.twice()), witness.copies.judged()
    finally:
        if up.begun and up.alive:
            up.end(signal.SIGTERM)
    return outcome


@contextmanager
def _watching(witness: Witness) -> Iterator[None]:
    """Have a witness watch in a thread of its own during the block. All clusters must answer at its end."""
    over = threading.Event()

    async def watch() -> None:
        watching = asyncio.create_task(witness.run())
        await asyncio.to_thread(over.wait)
        watching.cancel()
        [end] = await asyncio.gather(watching, return_exceptions=True)
        if isinstance(end, Exception):
            raise end
        await witness.finish()

    with ThreadPoolExecutor(1, thread_name_prefix="witness") as threads:
        ended = threads.submit(asyncio.run, watch())
        try:
            yield
        finally:
            over.set()
        ended.result()


def _start(up: Up) -> None:
    up.start("--tenants", ",".join(TENANTS), "--hollow", ",".join(SUPERS), "--nodes", str(NODES))


def _rage(up: Up, churns: Mapping[str, Churn], dice: random.Random, seconds: float, outcome: Outcome) -> None:
    """Kill the process while users act."""
    stop, began = threading.Event(), time.monotonic()
    with ThreadPoolExecutor(len(churns), thread_name_prefix="churn") as users:
        acting = [users.submit(churn.run, stop) for churn in churns.values()]
        try:
            while time.monotonic() - began < seconds:
                time.sleep(dice.uniform(SHORTEST_LIFE, LONGEST_LIFE))
                if not up.alive:
                    raise RuntimeError(f"vcsync up has ended by itself: {up.log.read_text()[-3000:]}")
                up.end(signal.SIGKILL)
                outcome.kills += 1
                time.sleep(dice.uniform(0, LONGEST_DEATH))
                _start(up)
        finally:
            stop.set()
        for each in acting:
            each.result()
    for churn in churns.values():
        outcome.actions += churn.done
        outcome.refused += churn.refused


def _settle(up: Up, churns: Mapping[str, Churn], seconds: float, outcome: Outcome, report: Report) -> None:
    """Audit repeatedly until there are no findings or the time is over."""
    began = time.monotonic()
    while True:
        try:
            world = _look(up, churns)
            outcome.findings = audit(world)
            outcome.compared = sum(len(list(each.everything())) for each in world.supers.values())
        except ReadError as error:
            outcome.findings = [Finding("unreadable", actual=str(error))]
        lasted = time.monotonic() - began
        report(f"{lasted:.0f} s after the last kill: {len(outcome.findings)} findings")
        if not outcome.findings or lasted > seconds:
            return
        time.sleep(LOOK_AGAIN_SECONDS)


def _look(up: Up, churns: Mapping[str, Churn]) -> World:
    return read_world(
        up.data / "admin.kubeconfig",
        {name: up.data / f"{name}.kubeconfig" for name in SUPERS},
        {name: up.data / f"{name}.kubeconfig" for name in TENANTS},
        markers={name: (churn.marker,) for name, churn in churns.items()},
    )
