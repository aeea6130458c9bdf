"""A missing, damaged or full store: the server must not replace it by a new one, and must report failed writes."""

import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hack.attacks.case import DEFAULT, Case, Scene, wrong
from hack.attacks.world import MARK, World, world
from hack.embedded import ControlPlaneError

SECONDS = 20.0
"""Seconds within which /readyz reports that writes fail, and that they succeed again."""
KEPT = f"{DEFAULT}/configmaps/kept-0"


def cases() -> Sequence[Case]:
    """Return the attacks; each starts its own control plane, which the attack may destroy."""
    found = [
        Case(f"a store that is {what}", _damaging(damage), always=what == "gone")
        for what, damage in DAMAGE.items()
    ]
    return [*found, Case("a disk that is full", _filling, always=True)]


def _gone(store: Path) -> None:
    store.unlink()


def _empty(store: Path) -> None:
    store.write_bytes(b"")


def _halved(store: Path) -> None:
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])


def _noise(store: Path) -> None:
    store.write_bytes(b"no store " * 1000)


def _folder(store: Path) -> None:
    store.unlink()
    store.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "gone": _gone,
    "empty": _empty,
    "half there": _halved,
    "something else": _noise,
    "a folder": _folder,
}


def _damaging(damage: Callable[[Path], None]) -> Callable[[Scene], Iterator[str]]:
    """Start a process on a damaged store, and again when the store is restored."""

    def attack(_: Scene) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="vcsync-store-") as folder, world(Path(folder)) as found:
            plane, store = found.plane, found.plane.data / "store.db"
            plane.stop()
            kept = Path(folder) / "kept.db"
            shutil.copy(store, kept)
            for each in plane.data.glob("store.db-*"):
                each.unlink()
            damage(store)
            try:
                plane.start()
                yield "it starts nevertheless"
            except ControlPlaneError as error:
                if "store.db" not in str(error) or "Traceback" in str(error):
                    yield f"it does not report the fault: {str(error)[-300:]}"
            plane.stop()
            if store.is_dir():
                store.rmdir()
            shutil.copy(kept, store)
            plane.start()
            yield from _there(found)

    return attack


def _there(found: World) -> Iterator[str]:
    answer = found.victim.ask("GET", KEPT)
    if answer.status != 200 or MARK.encode() not in answer.body:
        yield f"the stored object is missing: {answer.status} {answer.message}"


def _filling(_: Scene) -> Iterator[str]:
    """Limit the size of the process's files, as on a full disk; then remove the limit."""
    with tempfile.TemporaryDirectory(prefix="vcsync-store-") as folder, world(Path(folder)) as found:
        pid, place = found.plane.pid, f"{DEFAULT}/configmaps"
        files = [*found.plane.data.iterdir(), found.plane.log]
        most = max(each.stat().st_size for each in files) + 2**20
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        refused = None
        for number in range(100):
            body = {"metadata": {"name": f"fill-{number}"}, "data": {"a": "x" * 100_000}}
            answer = found.attacker.ask("POST", place, body)
            if answer.status != 201:
                refused = answer
                break
        if refused is None:
            yield "the disk is not full"
        else:
            yield from wrong(refused, frozenset({503, 507}))
        yield from _until_ready(found, ready=False)
        yield from _there(found)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        yield from _until_ready(found, ready=True)
        yield from wrong(found.attacker.ask("POST", place, {"metadata": {"name": "after"}}), frozenset({201}))


def _until_ready(found: World, *, ready: bool) -> Iterator[str]:
    until = time.monotonic() + SECONDS
    while (found.anonymous.ask("GET", "/readyz").status == 200) != ready:
        if time.monotonic() > until:
            yield f"/readyz does not report that it is {'' if ready else 'not '}ready"
            return
        time.sleep(0.2)
