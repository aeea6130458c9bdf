"""Runs histories, and makes those that fail short."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .machine import Pool, Step

SHRINKING_SECONDS = 240.0
"""Longest time for which a failing history is made shorter."""


def run(history: Sequence[Step]) -> Exception | None:
    """Run a history and let the pool come to rest. Return the error; None if everything holds."""
    pool = Pool()
    try:
        for name, arguments in history:
            getattr(pool, name)(**arguments)
        pool.rest()
    except Exception as error:  # noqa: BLE001 - each error is a finding
        return error
    finally:
        if hasattr(pool, "world"):
            with contextlib.suppress(Exception):
                pool.world.close()
    return None


def shrink(history: Sequence[Step], error: Exception) -> list[Step]:
    """Remove steps as long as the history fails in the same way."""
    kept, until = list(history), time.monotonic() + SHRINKING_SECONDS
    size = max(1, len(kept) // 2)
    while time.monotonic() < until:
        shorter = next((each for each in _without(kept, size) if _same(run(each), error)), None)
        if shorter is not None:
            kept = shorter
        elif size == 1:
            break
        else:
            size //= 2
    return kept


def text(history: Sequence[Step]) -> str:
    """Return a history as the steps that repeat it."""
    return "\n".join(
        f"    {name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in history
    )


def save(folder: Path, history: Sequence[Step]) -> Path:
    """Store a history, and return its file."""
    body = json.dumps(history, indent=1)
    path = folder / f"{hashlib.sha256(body.encode()).hexdigest()[:12]}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(body)
    return path


def load(folder: Path) -> Iterator[list[Step]]:
    """Yield the stored histories."""
    for path in sorted(folder.glob("*.json")):
        yield [(name, arguments) for name, arguments in json.loads(path.read_text())]


def _without(history: list[Step], size: int) -> Iterator[list[Step]]:
    for end in range(len(history), 1, -size):
        yield history[: max(1, end - size)] + history[end:]


def _same(found: Exception | None, wanted: Exception) -> bool:
    """Return whether two errors are the same, but for names and numbers."""
    return type(found) is type(wanted) and str(found).split()[-3:] == str(wanted).split()[-3:]
