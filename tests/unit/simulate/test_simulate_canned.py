"""The simulated output of containers."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vcsync.simulate.canned import (
    KEPT_LINES,
    ContainerRun,
    LogOptions,
    count,
    ends,
    lines,
    past,
    say,
    written,
)

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def life(*command: str, until: datetime | None = None) -> ContainerRun:
    return ContainerRun("p", "c", BEGAN, until, command)


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("command", "text", "code", "seconds"),
    [
        (["echo", "a", "b"], [(False, "a b")], 0, 0),
        (["sh", "-c", "echo 'a  b'; echo c >&2"], [(False, "a  b"), (True, "c")], 0, 0),
        (["sh", "-ec", "echo a && exit 3; echo b"], [(False, "a")], 3, 0),
        (["/bin/false"], [], 1, 0),
        (["sleep", "2.5"], [], 0, 2.5),
        (["bash", "-c", "sleep 1\nsleep 2s\nhostname"], [(False, "p")], 0, 3),
        (["sh", "-c", "-x", "sleep 2 && exit 1"], [], 1, 2),
        (["sh", "-c", "+e", "--", "echo a"], [(False, "a")], 0, 0),
        (["sleep", "0.5m"], [], 0, 30),
        (["sleep", "2h"], [], 0, 7200),
        (["sleep", "1d"], [], 0, 86400),
        (["sleep", "infinity"], [], 0, math.inf),
        (["nginx", "-g", "daemon off;"], [(False, "nginx -g daemon off;")], 0, 0),
        (["sh", "-c", "exit"], [], 0, 0),
        (["sh", "-c", "echo 'unclosed"], [(False, "'unclosed")], 0, 0),
        ([], [], 0, 0),
    ],
)
def test_the_simulated_output_of_commands(command: Any, text: Any, code: int, seconds: float) -> None:
    said = say(command, "p")
    assert (list(said.text), said.code, said.seconds) == (text, code, seconds)


@pytest.mark.parametrize(
    ("command", "known", "reads"),
    [
        (["sh", "-c", "echo a; exit 3"], True, False),
        (["nginx"], False, False),
        (["sh", "-c", "exit $CODE"], False, False),
        (["cat"], False, True),
        (["sh"], False, True),
        (["sh", "-c", "-x"], False, True),
    ],
)
def test_unknown_commands_and_commands_that_read_are_recognized(
    command: Any, known: bool, reads: bool
) -> None:
    said = say(command, "p")
    assert (said.known, said.reads) == (known, reads)


@pytest.mark.parametrize(
    ("line", "code"), [("exit", 0), ("exit 4", 4), ("ls", None), ("exit 300", 44), ("", None)]
)
def test_an_exit_line_ends_a_shell(line: str, code: int | None) -> None:
    assert ends(line) == code


def test_a_container_without_output_logs_one_line_per_second() -> None:
    found = past(life(), after(2.5), LogOptions())
    assert [each.text for each in found] == ["p c: line 1", "p c: line 2", "p c: line 3"]
    assert found[2].at == after(2)
    assert count(life(until=after(1)), after(60)) == 2


def test_a_container_with_output_logs_only_its_output() -> None:
    assert [each.text for each in past(life("echo", "hi"), after(60), LogOptions())] == ["hi"]


def test_a_log_is_the_same_every_time_it_is_read() -> None:
    whole = past(life(), after(100), LogOptions())
    assert whole[:51] == past(life(), after(50), LogOptions())
    assert list(lines(life(), 51, after(100))) == whole[51:]


def test_a_part_of_a_log_can_be_requested() -> None:
    tail = past(life(), after(9), LogOptions(tail=2))
    assert [each.text for each in tail] == ["p c: line 9", "p c: line 10"]
    assert [each.at for each in past(life(), after(9), LogOptions(since=after(8)))] == [after(8), after(9)]
    assert past(life(), after(9), LogOptions(tail=0)) == []


def test_old_lines_are_gone() -> None:
    found = past(life(), after(10 * KEPT_LINES), LogOptions())
    assert len(found) == KEPT_LINES
    assert found[-1].text == f"p c: line {10 * KEPT_LINES + 1}"


def test_a_line_can_have_a_timestamp() -> None:
    [line] = past(life("echo", "hi"), after(1), LogOptions())
    assert written(line, timestamps=True) == b"2026-01-01T00:00:00.000000000Z hi\n"
    assert written(line, timestamps=False) == b"hi\n"
