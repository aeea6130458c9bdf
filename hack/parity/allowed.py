"""Deliberate differences, read from `allowed.yaml`.

Each entry has a `reason` and one of two forms:

    - difference: regular expression that matches `step | path: real ..., ours ...`
    - path: regular expression that matches the path of a text in both answers
      real: regular expression that matches the part of the real server's text that may differ
      ours: regular expression that matches the part of our text that may differ

In the second form, the rest of the two texts must be equal. Without `ours`, our text omits the part.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.parity.compare import Difference

FILE = Path(__file__).parent / "allowed.yaml"


@dataclass
class Allowance:
    """One deliberate difference; `used`: whether it has matched."""

    difference: re.Pattern[str] | None
    path: re.Pattern[str]
    real: re.Pattern[str]
    ours: re.Pattern[str] | None
    used: bool = False

    def __str__(self) -> str:
        return self.difference.pattern if self.difference else self.real.pattern

    def covers(self, step: str, found: Difference) -> bool:
        """Return whether this entry allows the difference, and record the match."""
        if self.difference is not None:
            covered = self.difference.search(f"{step} | {found.whole}") is not None
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


def load(file: Path = FILE) -> list[Allowance]:
    """Read `allowed.yaml`, or another file of its form."""
    return [
        Allowance(
            re.compile(each["difference"]) if "difference" in each else None,
            re.compile(each.get("path", "")),
            re.compile(each.get("real", ""), re.DOTALL),
            re.compile(each["ours"], re.DOTALL) if "ours" in each else None,
        )
        for each in yaml.safe_load(file.read_text())
    ]
