"""Runs a Python module with a CPU profiler: `python -m hack.bench.sampler FILE -m MODULE ARGUMENTS`.

A timer of CPU time (setitimer(2), ITIMER_PROF) interrupts the main thread, and its stack is counted. C code is
counted for the Python function that called it. At the end FILE contains two tables (own time, time with callees) and
FILE.stacks the stacks in the collapsed form that flame graph tools read.
"""

from __future__ import annotations

import atexit
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL = 0.004
"""Seconds of CPU time between two samples."""
SHOWN = 45
_USAGE = "usage: python -m hack.bench.sampler FILE -m MODULE [ARGUMENTS]"


class Sampler:
    """Counts stacks by code positions; names are resolved at the end."""

    def __init__(self) -> None:
        self.stacks: Counter[tuple[tuple[str, str, int], ...]] = Counter()

    def sample(self, _signal: int, frame: FrameType | None) -> None:
        """Count the interrupted stack, outermost function first."""
        stack = []
        while frame is not None:
            code = frame.f_code
            stack.append((code.co_filename, code.co_qualname, frame.f_lineno))
            frame = frame.f_back
        self.stacks[tuple(reversed(stack))] += 1

    def tables(self) -> str:
        """Format the two tables, with shares in percent."""
        total = sum(self.stacks.values()) or 1
        own: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            if stack:
                own[_function(stack[-1])] += count
                lines[f"{_function(stack[-1])}:{stack[-1][2]}"] += count
            for function in {_function(position) for position in stack}:
                whole[function] += count
        parts = [f"{total} samples, {total * INTERVAL:.2f} s of CPU time"]
        for title, counts in (("own", own), ("own, by line", lines), ("with callees", whole)):
            rows = [f"{count / total:7.1%}  {name}" for name, count in counts.most_common(SHOWN)]
            parts.append("\n".join((title, *rows)))
        return "\n\n".join(parts) + "\n"

    def collapsed(self) -> str:
        """Format one line per stack: functions from the outermost on, separated by `;`, and the number of samples."""
        merged: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            merged[";".join(map(_function, stack))] += count
        return "".join(f"{stack} {count}\n" for stack, count in merged.most_common())


def _function(position: tuple[str, str, int]) -> str:
    file, name, _ = position
    path = Path(file)
    return f"{path.parent.name}/{path.name}:{name}"


def main(arguments: list[str]) -> None:
    """Run the module like `python -m`, with sampling."""
    if len(arguments) < 3 or arguments[1] != "-m":
        sys.exit(_USAGE)
    file, module = Path(arguments[0]), arguments[2]
    sampler = Sampler()

    def write() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        file.write_text(sampler.tables())
        file.with_name(file.name + ".stacks").write_text(sampler.collapsed())

    atexit.register(write)
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    sys.argv = [module, *arguments[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
