"""Simulated output of containers: of commands, and in logs. Pure.

These commands of a script are simulated one by one: `echo` prints (with `>&2` on stderr), `exit` and `false`
end it with their code, `sleep` takes its time, `hostname` prints the Pod's name, `true` and `cd` do nothing, `cat` and a
shell without a script send back their input until a line says `exit`. Any other command prints itself. A container's log
is the output of its command, or one line per second if there is none.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from vcsync.patterns.linear import linear

SHELLS = frozenset({"sh", "bash", "ash", "dash"})
READERS = frozenset({"cat", "read", "tee"})
SILENT = READERS | {"true", "cd", "set", ":", "sleep", "false"}
KEPT_LINES = 10_000
"""Number of lines that a log keeps: older ones are rotated away."""
LINE_SECONDS = 1.0
_SEPARATORS = re.compile(r"&&|\|\||;|\n|(?<![>&])&(?![>&])")
_STDERR = linear(r"\s*1?>\s*&\s*2\b|\s*>\s*/dev/stderr\b")
_DURATION = linear(r"^(\d+(?:\.\d+)?|inf(?:inity)?)([smhd]?)$")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Suffix of a duration of sleep(1) -> seconds."""


class CommandResult(Struct, frozen=True):
    """The simulated result of a command.

    Attributes:
        text: pairs of whether it is on stderr, and a line.
        code: its exit code.
        seconds: its duration; infinity: it does not end.
        reads: whether it sends back its input.
        known: whether the simulation knows all parts of it.
    """

    text: tuple[tuple[bool, str], ...] = ()
    code: int = 0
    seconds: float = 0.0
    reads: bool = False
    known: bool = True


def say(command: Sequence[str], host: str) -> CommandResult:
    """Return the output and the exit of a command; `host`: the Pod's name."""
    lines: list[tuple[bool, str]] = []
    seconds, code, reads, known = 0.0, 0, False, True
    commands = _commands(command)
    if commands is None:
        return CommandResult(reads=True, known=False)
    for text in commands:
        on_stderr = bool(_STDERR.search(text))
        words = _words(_STDERR.sub("", text))
        if not words:
            continue
        name, rest = words[0].rpartition("/")[2], words[1:]
        if name == "exit":
            known = known and (not rest or rest[0].isdigit())
            return CommandResult(tuple(lines), _code(rest, code), seconds, reads, known)
        code = 1 if name == "false" else 0
        reads = reads or name in READERS
        known = known and name not in READERS
        if name == "sleep" and rest and (duration := _DURATION.match(rest[0])):
            seconds += float(duration[1]) * _UNITS[duration[2]]
        elif name == "echo":
            lines.append((on_stderr, " ".join(rest[1:] if rest[:1] == ["-n"] else rest)))
        elif name == "hostname":
            lines.append((on_stderr, host))
        elif name not in SILENT:
            known = False
            lines.append((on_stderr, " ".join(words)))
    return CommandResult(tuple(lines), code, seconds, reads, known)


def ends(line: str) -> int | None:
    """Return the exit code requested by a line typed into a shell; None: none."""
    words = line.split()
    return _code(words[1:], 0) if words[:1] == ["exit"] else None


def _commands(command: Sequence[str]) -> list[str] | None:
    """Return the commands of a script, or the single command; None: an interactive shell."""
    if not command:
        return []
    name = command[0].rpartition("/")[2]
    if name in SHELLS:
        for at, word in enumerate(command[1:], 1):
            if word.startswith("-") and word.endswith("c"):
                # The script is the first operand, after all options.
                script = next((each for each in command[at + 1 :] if not each.startswith(("-", "+"))), None)
                return None if script is None else [each.strip() for each in _SEPARATORS.split(script)]
        return None
    return [shlex.join(command)]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _code(words: Sequence[str], otherwise: int) -> int:
    return int(words[0]) & 255 if words and words[0].isdigit() else otherwise


class ContainerRun(Struct, frozen=True):
    """One run of a container. `until`: its end; None: it still runs."""

    pod: str
    container: str
    began: datetime
    until: datetime | None
    command: tuple[str, ...]


class Line(Struct, frozen=True):
    """One line of a log."""

    at: datetime
    text: str


class LogOptions(Struct, frozen=True):
    """The requested part of a log."""

    tail: int | None = None
    limit: int | None = None
    since: datetime | None = None
    timestamps: bool = False


def lines(life: ContainerRun, first: int, now: datetime) -> Iterator[Line]:
    """Yield a log's lines from number `first` on, up to now."""
    said = say(life.command, life.pod).text
    for number in range(first, count(life, now)):
        if said:
            yield Line(life.began + timedelta(milliseconds=number), said[number][1])
        else:
            yield Line(next_at(life, number), f"{life.pod} {life.container}: line {number + 1}")


def past(life: ContainerRun, now: datetime, options: LogOptions) -> list[Line]:
    """Return the requested lines of a log."""
    there = count(life, now)
    first = max(0, there - (KEPT_LINES if options.tail is None else min(options.tail, KEPT_LINES)))
    return [each for each in lines(life, first, now) if options.since is None or each.at >= options.since]


def count(life: ContainerRun, now: datetime) -> int:
    """Return the number of lines of a log."""
    said = say(life.command, life.pod).text
    if said:
        return len(said)
    passed = ((life.until or now) - life.began).total_seconds()
    return int(passed / LINE_SECONDS) + 1 if passed >= 0 else 0


def next_at(life: ContainerRun, number: int) -> datetime:
    """Return the time of the line with this number, in a log with one line per second."""
    return life.began + timedelta(seconds=number * LINE_SECONDS)


def written(line: Line, *, timestamps: bool) -> bytes:
    """Format a line for the client."""
    at = f"{line.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z " if timestamps else ""
    return f"{at}{line.text}\n".encode()
