"""The demo checks each statement that it prints, and fails if an expected result is missing."""

import pytest

from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.main import main
from vcsync.cli.demo.commands import _go_on
from vcsync.cli.demo.stage import Commentary


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def commentary(said: list[str]) -> Commentary:
    return Commentary(said.append, _go_on, patience=0.0)


async def test_a_result_is_printed_once_it_appears(said: list[str], commentary: Commentary) -> None:
    answers = ["", "not yet"]

    async def check() -> str:
        return answers.pop()

    await Commentary(said.append, _go_on, patience=60.0).until("Pods run", check)
    assert not answers
    assert said[0].startswith("   Pods run (")


async def test_the_usual_time_of_a_result_is_added_to_the_patience(
    said: list[str], commentary: Commentary
) -> None:
    answers = ["", "it is suspect"]

    async def check() -> str:
        return answers.pop()

    await commentary.until("it is lost", check, usual=60.0)
    assert said[0].startswith("   it is lost (")


async def test_a_missing_result_fails_with_its_name(said: list[str], commentary: Commentary) -> None:
    async def never() -> str:
        return "Pods are {}"

    with pytest.raises(FailedError, match=r"not within 0 s: Pods run; Pods are \{\}"):
        await commentary.until("Pods run", never)
    assert said == []


def test_a_false_statement_is_not_printed(said: list[str], commentary: Commentary) -> None:
    with pytest.raises(FailedError, match="this is not true: they are apart"):
        commentary.require("they are apart", 1 > 2)
    assert said == []


def test_steps_need_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["demo", "--step"]) == 2
    assert "there is no terminal" in capsys.readouterr().err
