"""A run: starts a control plane with two tenants, sends requests to one of them, and checks both."""

import asyncio
import base64
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile

import yaml

from hack.embedded import ControlPlane
from hack.fuzz import aware, raw
from hack.fuzz.client import Client, HangError
from hack.fuzz.judge import allowed, finding
from hack.fuzz.request import Request, http
from hack.fuzz.witness import Witness
from hack.testbed.processes import resident_memory

CONNECTIONS = 8
BOUND_SECONDS = 30.0
RAW_SHARE = 0.1
WARM_UP = 0.25
MAX_GROWTH = 1.5
GROWTH_FREE = 100 * 2**20
"""Bytes of growth that are normal: caches fill, and objects are stored."""
MAX_FINDINGS = 50
CLEAN_EVERY = 100
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OBSTACLES = (
    f"{_ADMISSION}/validatingwebhookconfigurations",
    f"{_ADMISSION}/mutatingwebhookconfigurations",
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_ADMISSION}/validatingadmissionpolicies",
    f"{_ADMISSION}/mutatingadmissionpolicybindings",
    f"{_ADMISSION}/mutatingadmissionpolicies",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/api/v1/namespaces/default/resourcequotas",
    "/api/v1/namespaces/default/limitranges",
)
LOGGED = re.compile(
    r"Traceback|request failed|never retrieved|was never awaited|Task was destroyed|MemoryError|RecursionError"
)


@dataclass
class Tally:
    """The result of a run."""

    sent: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)
    codes: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    memory: tuple[int, int] = (0, 0)
    allowed: Counter[str] = field(default_factory=Counter)
    latency: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """The other tenant's reads in ms: median and 99th percentile at rest, and during the run."""


def request(seed: int, number: int) -> Request:
    """Return the request with a number; deterministic for a seed and the parity corpus."""
    random = Random(f"{seed}/{number}")  # noqa: S311 - no secret
    make = raw.request if random.random() < RAW_SHARE else aware.request
    return make(number, random)


async def run(
    folder: Path,
    requests: int,
    seed: int,
    *,
    seconds: float = float("inf"),
    only: tuple[int, ...] = (),
    progress: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Start a control plane in a folder and fuzz it.

    Args:
        folder: an empty folder for its data and log.
        requests: number of requests.
        seed: of all random choices.
        seconds: after which no more requests are sent.
        only: numbers of the requests to send; empty: all.
        progress: called every 1,000 requests.
    """
    tally = Tally()
    with ControlPlane(folder) as plane:
        paths = {name: plane.create(name, "--controllers", "external") for name in ("fuzz", "witness")}
        tls = {name: credentials(path) for name, path in paths.items()}
        witness = Witness(plane.port, tls["witness"])
        try:
            await witness.prepare()
            numbers = iter(only or range(requests))
            until = time.monotonic() + seconds
            began = time.monotonic()
            warm = asyncio.Event()
            before = resident_memory(plane.pid)

            measuring = asyncio.create_task(witness.measure())

            async def work() -> None:
                nonlocal before
                client = Client(plane.port, tls["fuzz"], BOUND_SECONDS)
                for number in numbers:
                    if time.monotonic() > until or len(tally.findings) >= MAX_FINDINGS:
                        break
                    if number % CLEAN_EVERY == CLEAN_EVERY - 1:
                        await _clean(client)
                    await _one(client, request(seed, number), tally)
                    if not warm.is_set() and tally.sent >= requests * WARM_UP:
                        warm.set()
                        before = resident_memory(plane.pid)
                    if tally.sent % 1000 == 0:
                        tally.memory = (before, resident_memory(plane.pid))
                        tally.seconds = time.monotonic() - began
                        progress(tally)
                await client.close()

            await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
            tally.seconds = time.monotonic() - began
            tally.memory = (before, resident_memory(plane.pid))
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            tally.latency = (*_latency(witness.quiet), *_latency(witness.loaded))
            tally.findings += await witness.problems()
            if tally.memory[1] > tally.memory[0] * MAX_GROWTH + GROWTH_FREE:
                tally.findings.append(f"memory grew from {tally.memory[0]:,} to {tally.memory[1]:,} bytes")
        except OSError as error:
            tally.findings.append(f"the server cannot be reached: {error}")
        finally:
            await witness.close()
        code = plane.stop()
    if code != 0:
        tally.findings.append(f"the server ended with {code}")
    tally.findings += [
        f"its log: {line[:200]} ... {line[-600:]}"
        for line in plane.log.read_text(errors="replace").splitlines()
        if LOGGED.search(line)
    ][:MAX_FINDINGS]
    return tally


async def _clean(client: Client) -> None:
    """Delete objects that would refuse all later requests: unreachable webhooks, policies, levels without seats."""
    for plural in OBSTACLES:
        with suppress(HangError):
            await client.send(http(0, "DELETE", plural, {}, None))


def _latency(seconds: list[float]) -> tuple[float, float]:
    """Return median and 99th percentile in milliseconds."""
    if not seconds:
        return 0.0, 0.0
    ordered = sorted(seconds)
    return 1000 * ordered[len(ordered) // 2], 1000 * ordered[len(ordered) * 99 // 100]


async def _one(client: Client, sent: Request, tally: Tally) -> None:
    began = time.monotonic()
    try:
        answer = await client.send(sent)
    except HangError as error:
        problem, status, content = str(error), 0, b""
    else:
        problem, status, content = finding(sent, answer), answer.status, answer.body
        if not problem and (why := allowed(answer)):
            tally.allowed[why] += 1
    tally.slowest = max(tally.slowest, (time.monotonic() - began, sent.number))
    tally.sent += 1
    tally.codes[status] += 1
    if problem:
        data = b"".join(sent.pieces)
        tally.findings.append(
            f"request {sent.number}: {problem}\n  sent {data[:1500]!r}\n  answered {status} {content[:600]!r}"
        )


def credentials(kubeconfig: Path) -> ssl.SSLContext:
    """Return the TLS settings of a tenant's kubeconfig, with its certificate."""
    content = yaml.safe_load(kubeconfig.read_text())
    user, cluster = content["users"][0]["user"], content["clusters"][0]["cluster"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    context.check_hostname = False
    with NamedTemporaryFile() as file:
        for key in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[key]) + b"\n")
        file.flush()
        context.load_cert_chain(file.name)
    return context
