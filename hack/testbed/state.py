"""The file in which a test bed records its servers, so that another process can use or stop it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hack.testbed.plan import Plan
from hack.testbed.processes import Process

FILE = "state.json"


@dataclass
class State:
    """The record of a test bed. It contains admin tokens, so that only the owner may read the file."""

    etcd_url: str
    owner: Process
    """The process that stops the test bed when it ends; of a detached one, the process that started it."""
    detached: bool
    plans: dict[str, Plan] = field(default_factory=dict)
    processes: dict[str, dict[str, Process]] = field(default_factory=dict)
    """Cluster -> component -> process; the shared etcd has an empty cluster name."""

    def running(self) -> list[Process]:
        """Return every recorded server that runs."""
        everything = (process for group in self.processes.values() for process in group.values())
        return [process for process in everything if process.alive]


def load(folder: Path) -> State | None:
    """Return the state recorded in a test bed's folder; None if there is none.

    Raises:
        ValueError: the file was not written by this version of the test bed.
    """
    try:
        text = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=State, dec_hook=_decode)
    except msgspec.DecodeError as error:
        raise ValueError(f"{folder / FILE} is not a test bed's state ({error}); remove it") from error


def save(state: State, folder: Path) -> None:
    """Write the state atomically: a reader sees the old or the new one."""
    unfinished = folder / f"{FILE}.unfinished"
    unfinished.touch(mode=0o600)
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(state, enc_hook=_encode)))
    unfinished.replace(folder / FILE)


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"cannot encode {type(value)}")


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Path:
        return Path(value)
    raise NotImplementedError(f"cannot decode {wanted}")
