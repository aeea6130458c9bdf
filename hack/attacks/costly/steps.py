"""`python -m hack.attacks.costly.steps`: the longest step of the event loop, and the memory, that each costly attack takes of `vcsync up`."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.attacks.client import Answer, Door
from hack.attacks.costly.measured import LongestStep
from hack.attacks.costly.row import MEGABYTE, Row
from hack.attacks.costly.table import GROUPS
from hack.attacks.world import door
from hack.fuzz.judge import is_upstreams
from hack.testbed.processes import free_ports

READY_SECONDS = 120.0
LIVE_SECONDS = 60.0
"""Time limit of the other tenant's read after an attack."""
ENDED = "the process does not answer any more"
HEAD = f"{'attack':66}{'step ms':>9}{'aim':>6}{'memory MiB':>12}{'aim':>6}  answers"


@dataclass(frozen=True)
class Target:
    """A `vcsync up` whose event loop is measured."""

    port: int
    parent: int
    operator: Door
    victim: Door
    longest: LongestStep

    @property
    def pid(self) -> int:
        """Return the process that serves; its parent starts it again if its event loop stands.

        Raises:
            RuntimeError: It has ended.
        """
        children = Path(f"/proc/{self.parent}/task/{self.parent}/children").read_text().split()
        if not children:
            raise RuntimeError(ENDED)
        return int(children[0])

    def tenant(self, name: str) -> Door:
        """Create a tenant, and return its administrator."""
        made = self.operator.ask("POST", "/vcsync/v1/tenants", {"name": name})
        got = self.operator.ask("GET", f"/vcsync/v1/tenants/{name}/kubeconfig")
        if made.status != 201 or got.status != 200:
            raise RuntimeError(f"tenant {name}: {made.status} {made.message}; {got.status}")
        return door(self.port, got.body.decode())

    def remove(self, name: str) -> None:
        """Delete a tenant with all that an attack has left."""
        self.operator.ask("DELETE", f"/vcsync/v1/tenants/{name}")


@dataclass(frozen=True)
class Cost:
    """The cost of one attack: its longest step in seconds, memory in bytes, and findings, normally none."""

    row: Row
    seconds: float
    size: int
    answers: dict[int, int]
    findings: list[str]

    def __str__(self) -> str:
        """Return the line of the report."""
        answers = ", ".join(f"{code or 'closed'}: {count}" for code, count in sorted(self.answers.items()))
        over = [] if self.seconds * 1000 <= self.row.step else ["a step above the aim"]
        over += [] if self.size <= self.row.size * MEGABYTE else ["memory above the aim"]
        notes = "; ".join([*over, *self.findings])
        return (
            f"{self.row.name:66}{1000 * self.seconds:9.1f}{self.row.step:6}{self.size / MEGABYTE:12.1f}{self.row.size:6}  {answers}"
            + (f"  {notes.upper() if self.findings else notes}" if notes else "")
        )


@contextlib.contextmanager
def target(folder: Path) -> Iterator[Target]:
    """Start `vcsync up` with two tenants."""
    port, status = free_ports(2)
    data, steps = folder / "data", folder / "steps"
    command = [
        sys.executable, "-m", "hack.attacks.costly.measured", str(steps), "up", "--data", str(data), "--listen", f"127.0.0.1:{port}",
        "--status", f"127.0.0.1:{status}", "--tenants", "mallet,victim", "--hollow", "r1", "--nodes", "2",
    ]  # fmt: skip
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(folder / "up.log", process)
            operator = door(port, (data / "admin.kubeconfig").read_text())
            victim = door(port, (data / "victim.kubeconfig").read_text())
            yield Target(port, process.pid, operator, victim, LongestStep(steps))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while b"\nready after" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"vcsync up is not ready: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def cost(at: Target, row: Row, number: int) -> Cost:
    """Carry out an attack by a tenant of its own, and measure it."""
    name = f"t{number}"
    attacker = at.tenant(name)
    time.sleep(0.5)  # its control plane begins
    pid, findings = at.pid, []
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = _memory(pid, "VmRSS")
    at.longest.reset()
    answers = list(row.attack(attacker))
    time.sleep(row.settle)
    alive = at.victim.ask("GET", "/api/v1/namespaces/default", seconds=LIVE_SECONDS)
    if not alive.status or at.pid != pid:
        raise RuntimeError(
            "another tenant gets no answer" if not alive.status else "the process was started again"
        )
    if alive.status != 200:
        findings.append(f"another tenant gets {alive.status} {alive.message}")
    found = Cost(
        row, at.longest.seconds(), max(0, _memory(pid, "VmHWM") - before), _counted(answers), findings
    )
    findings += [
        f"500 {each.message[:200]}"
        for each in answers
        if each.status == 500 and not is_upstreams(each.message)
    ][:3]
    at.remove(name)
    return found


def _counted(answers: Sequence[Answer]) -> dict[int, int]:
    return {code: sum(each.status == code for each in answers) for code in {each.status for each in answers}}


def _memory(pid: int, field: str) -> int:
    """Return a field of a process' status in bytes.

    Raises:
        RuntimeError: The process has ended.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(ENDED)


def run(rows: Sequence[Row]) -> list[Cost]:
    """Measure attacks in turn. A process that an attack ends or stops is replaced."""
    found: list[Cost] = []
    left = list(enumerate(rows))
    while left:
        with tempfile.TemporaryDirectory(prefix="vcsync-steps-") as folder, target(Path(folder)) as at:
            while left:
                number, row = left.pop(0)
                try:
                    found.append(cost(at, row, number))
                except (OSError, RuntimeError) as error:
                    found.append(Cost(row, LIVE_SECONDS, 0, {}, [f"{ENDED}: {error!r}"]))
                    print(found[-1], flush=True)
                    break
                print(found[-1], flush=True)
    return found


def main() -> int:
    """Measure and print; returns 1 if an attack stops the process or is answered by 500."""
    parser = argparse.ArgumentParser(prog="python -m hack.attacks.costly.steps", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="attacks whose 'group: name' matches")
    options = parser.parse_args()
    rows = [
        row
        for group, rows in GROUPS.items()
        for row in rows
        if re.search(options.only, f"{group}: {row.name}")
    ]
    print(HEAD, flush=True)
    found = run(rows)
    above = [
        each for each in found if 1000 * each.seconds > each.row.step or each.size > each.row.size * MEGABYTE
    ]
    failed = [each for each in found if each.findings]
    print(f"{len(found)} attacks; {len(above)} above an aim, {len(failed)} with findings")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
