"""`python -m hack.attacks.tables.sweep`: runs every attack, on one process and on two over etcd, and checks for damage."""

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hack.attacks.case import GROUP, RBAC, Case, Scene, prepare
from hack.attacks.client import Door
from hack.attacks.tables import ALONE, TABLES
from hack.attacks.world import ATTACKER, HOST_NAMES, VICTIM, World, world
from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.testbed.processes import resident_memory

MEGABYTE = 2**20
MORE_MEMORY = 700 * MEGABYTE
"""Bytes by which the memory of one process may exceed that before the attacks, at any time between two of them."""
MORE_STORE = {"one process": 96 * MEGABYTE, "two processes on etcd": 400 * MEGABYTE}
"""Bytes by which the store may grow in total: etcd keeps freed space, SQLite returns it within minutes."""
MOST_STORE = {"one process": 800 * MEGABYTE, "two processes on etcd": 1600 * MEGABYTE}
"""Bytes by which the store may grow at any time: a tenant may write 512 MiB of history in ten minutes."""
SETTLE_SECONDS = 150.0
"""Seconds that the store may take to shrink after the attacks."""
BETWEEN = 20
"""Number of attacks between full checks; the other tenants' permissions, memory and the store are checked after each."""
WITNESS = "witness"
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
PLACE = "/api/v1/namespaces/default"


@dataclass
class Theatre:
    """The target of attacks: processes that serve the same tenants, and their store.

    Attributes:
        name: its name in the report.
        worlds: one for each process.
        store: the folder or file that holds the data.
        watcher: the witness of each process: a user of another tenant, whose permissions must not change.
    """

    name: str
    worlds: list[World]
    store: Path
    watcher: list[Door]
    rights: str = ""
    memory: dict[int, int] = field(default_factory=dict)
    size: int = 0
    largest: int = 0
    reported: set[str] = field(default_factory=set)

    def scenes(self, table: str) -> list[Scene]:
        """Create an attacking tenant: damage that one table did to its own tenant must not affect the next table."""
        first, tenant = self.worlds[0], f"{ATTACKER}-{table}"
        attacker = first.tenant(tenant)
        lowly = prepare(replace(first, attacker=attacker), tenant)
        return [
            Scene(
                replace(each, attacker=replace(attacker, port=each.plane.port)),
                tenant,
                replace(lowly, port=each.plane.port),
                number,
            )
            for number, each in enumerate(self.worlds)
        ]

    def begin(self) -> None:
        """Record the state before the attacks."""
        self.rights = rights(self.watcher[0])
        self.memory = {each.plane.pid: resident_memory(each.plane.pid) for each in self.worlds}
        self.size = size_of(self.store)

    def harm(self) -> Iterator[str]:
        """Return the damage of an attack to others, by a quick check."""
        for watcher in self.watcher:
            now = rights(watcher)
            if now != self.rights:
                yield f"the rights of another tenant's user changed: {now[:300]}, not {self.rights[:300]}"
            for path, wanted in ((f"{PLACE}/configmaps/kept-0", 200), (f"{PLACE}/secrets/kept-0", 403)):
                answer = watcher.ask("GET", path)
                if answer.status != wanted:
                    yield f"another tenant's user gets {answer.status}, not {wanted}: {answer.message}"
        for pid, before in self.memory.items():
            more = resident_memory(pid) - before
            self.largest = max(self.largest, more)
            if not more + before > 0 or more > MORE_MEMORY:
                yield f"a process uses {more // MEGABYTE} MiB more than before, or has ended"

        if self.grown() > MOST_STORE[self.name]:
            yield f"the store is {self.grown() // MEGABYTE} MiB larger than before"

    def looked_over(self) -> Iterator[str]:
        """Return the damage of attacks, by a full check; each line of the log is reported once."""
        found = [
            problem for each in self.worlds for problem in each.problems() if problem not in self.reported
        ]
        self.reported.update(found)
        yield from found

    def grown(self) -> int:
        """Return the growth of the store in bytes."""
        return size_of(self.store) - self.size

    def settled(self) -> Iterator[str]:
        """Wait until the store has returned the space that attacks used."""
        until = time.monotonic() + SETTLE_SECONDS
        while self.grown() > MORE_STORE[self.name] and time.monotonic() < until:
            time.sleep(1)
        if self.grown() > MORE_STORE[self.name]:
            yield f"the store is {self.grown() // MEGABYTE} MiB larger than before"


def rights(door: Door) -> str:
    """Return the permissions of a user in its namespace, as the server reports them."""
    answer = door.ask("POST", REVIEWS, {"spec": {"namespace": "default"}})
    return str(answer.json["status"]) if answer.status == 201 else f"{answer.status} {answer.message}"


def size_of(place: Path) -> int:
    """Return the size of a store's files in bytes."""
    return sum(each.stat().st_size for each in place.rglob("*") if each.is_file() and each.suffix != ".log")


@contextlib.contextmanager
def one_process(folder: Path) -> Iterator[Theatre]:
    """One control plane with its own store."""
    with world(folder, *HOST_NAMES) as found:
        yield theatre("one process", [found], found.plane.data)


@contextlib.contextmanager
def two_processes(folder: Path) -> Iterator[Theatre]:
    """Two control planes on one etcd."""
    with (
        Etcd(folder / "etcd") as etcd,
        world(folder / "one", *HOST_NAMES, etcd=etcd.url) as one,
        ControlPlane(folder / "other", etcd=etcd.url, arguments=HOST_NAMES) as plane,
    ):
        yield theatre("two processes on etcd", [one, second_process(one, plane)], folder / "etcd" / "data")


def second_process(found: World, plane: ControlPlane) -> World:
    """Return another process that serves the same tenants."""
    doors = {
        each: replace(getattr(found, each), port=plane.port)
        for each in ("operator", "attacker", "victim", "anonymous")
    }
    return replace(found, plane=plane, **doors)


def theatre(name: str, worlds: Sequence[World], store: Path) -> Theatre:
    """Create the tenants and the witness."""
    witness = worlds[0].user(VICTIM, WITNESS)
    subject = {"apiGroup": GROUP, "kind": "User", "name": WITNESS}
    reference = {"apiGroup": GROUP, "kind": "Role", "name": WITNESS}
    for plural, body in (
        ("roles", {"metadata": {"name": WITNESS}, "rules": RULES}),
        ("rolebindings", {"metadata": {"name": WITNESS}, "roleRef": reference, "subjects": [subject]}),
    ):
        made = worlds[0].victim.ask("POST", f"{RBAC}/namespaces/default/{plural}", body)
        if made.status != 201:
            raise RuntimeError(f"the witness' {plural}: {made.status} {made.message}")
    watcher = [replace(witness, port=each.plane.port) for each in worlds]
    found = Theatre(name, [*worlds], store, watcher)
    until = time.monotonic() + 20
    while any(rights(each) != rights(watcher[0]) or "configmaps" not in rights(each) for each in watcher):
        if time.monotonic() > until:
            raise RuntimeError("the witness does not have its rights")
        time.sleep(0.1)
    found.begin()
    return found


@dataclass
class Result:
    """The results of attacks: their number in each table, and the successful ones."""

    counts: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)


def attack(place: Theatre, chosen: Sequence[tuple[str, Case]], result: Result) -> None:
    """Carry out attacks on the processes in rotation, and check for damage after each."""
    scenes: list[Scene] = []
    for number, (table, case) in enumerate(chosen):
        if not number or chosen[number - 1][0] != table:
            scenes = place.scenes(table)
        scene = scenes[number % len(scenes)]
        try:
            found = list(case.attack(scene))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            found = [f"it ended with {error!r}"]
        found += place.harm()
        if number % BETWEEN == BETWEEN - 1 or number == len(chosen) - 1 or chosen[number + 1][0] != table:
            found += place.looked_over()
        result.counts[f"{place.name}: {table}"] += 1
        for each in found:
            miss = f"{place.name}: {table}: {case.name}: {each}"
            result.misses.append(miss)
            print(f"MISSED {miss[:600]}", flush=True)


def cases(tables: Sequence[str], only: str, every: int) -> list[tuple[str, Case]]:
    """Return every n-th attack whose name matches, and those that always run."""
    found = [(table, case) for table in tables for case in TABLES[table]()]
    matching = [each for each in found if re.search(only, f"{each[0]}: {each[1].name}")]
    return [each for number, each in enumerate(matching) if number % every == 0 or each[1].always]


def suited(chosen: Sequence[tuple[str, Case]], theatre: str) -> list[tuple[str, Case]]:
    """Return the attacks that are possible on this target."""
    return [each for each in chosen if theatre == "one" or each[0] not in ALONE]


THEATRES = {"one": one_process, "two": two_processes}


def sweep(chosen: Sequence[tuple[str, Case]], theatres: Sequence[str], folder: Path) -> Result:
    """Carry out all selected attacks on each kind of control plane."""
    result = Result()
    for each in theatres:
        wanted = suited(chosen, each)
        with THEATRES[each](folder / each) as place:
            began = time.monotonic()
            attack(place, wanted, result)
            for miss in place.settled():
                result.misses.append(f"{place.name}: {miss}")
                print(f"MISSED {result.misses[-1]}", flush=True)
            print(
                f"{place.name}: {len(wanted)} attacks in {time.monotonic() - began:.0f} s; memory at most "
                f"{place.largest // MEGABYTE} MiB more, the store {place.grown() // MEGABYTE} MiB larger",
                flush=True,
            )
    return result


def main() -> int:
    """Run the attacks; returns 0 if none was missed."""
    parser = argparse.ArgumentParser(prog="python -m hack.attacks.tables.sweep", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="attacks whose 'table: name' matches")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth attack")
    parser.add_argument(
        "--on", choices=[*THEATRES], action="append", help="one process, or two on etcd (default: both)"
    )
    options = parser.parse_args()
    chosen = cases([*TABLES], options.only, options.every)
    with tempfile.TemporaryDirectory(prefix="vcsync-attacks-") as folder:
        result = sweep(chosen, options.on or [*THEATRES], Path(folder))
    for table, count in result.counts.items():
        print(f"{count:6} {table}")
    print(f"{result.counts.total():6} attacks, {len(result.misses)} missed")
    return 1 if result.misses or not result.counts else 0


if __name__ == "__main__":
    sys.exit(main())
