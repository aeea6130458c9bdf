"""Differences that are meant, read from `allowed.yaml`.

Each is one of

    - difference: regular expression over `step | path: real ..., ours ...`
    - path: regular expression over the path of a text in both answers
      real: what of the real server's text is meant to differ
      ours: what of ours is

with a `reason`. Of the second kind everything in the texts but what `real` and `ours` match must be the same; without
`ours`, ours has nothing in its place.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.parity.compare import Difference

FILE = Path(__file__).parent / "allowed.yaml"


@dataclass
class Allowance:
    """One of them; `used`: it has allowed something."""

    difference: re.Pattern[str] | None
    path: re.Pattern[str]
    real: re.Pattern[str]
    ours: re.Pattern[str] | None
    used: bool = False

    def __str__(self) -> str:
        return self.difference.pattern if self.difference else self.real.pattern

    def covers(self, step: str, found: Difference) -> bool:
        """Tell whether this difference is meant, and remember that it was met."""
        if self.difference is not None:
            covered = self.difference.search(f"{step} | {found}") is not None
        else:
            covered = self._covers_texts(found)
        self.used |= covered
        return covered

    def _covers_texts(self, found: Difference) -> bool:
        if not (isinstance(found.real, str) and isinstance(found.ours, str)):
            return False
        if not (self.path.fullmatch(found.path) and self.real.search(found.real)):
            return False
        mark = "" if self.ours is None else "*"
        left = self.real.sub(mark, found.real)
        return left == (found.ours if self.ours is None else self.ours.sub(mark, found.ours))


def load() -> list[Allowance]:
    """Read the file."""
    return [
        Allowance(
            re.compile(each["difference"]) if "difference" in each else None,
            re.compile(each.get("path", "")),
            re.compile(each.get("real", ""), re.DOTALL),
            re.compile(each["ours"], re.DOTALL) if "ours" in each else None,
        )
        for each in yaml.safe_load(FILE.read_text())
    ]
