"""What the demo says has been seen: what does not come about ends it."""

import pytest

from vcsync.cli.demo import _go_on
from vcsync.cli.demo_acts import Telling
from vcsync.cli.errors import FailedError
from vcsync.cli.main import main


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def telling(said: list[str]) -> Telling:
    return Telling(said.append, _go_on, patience=0.0)


async def test_it_says_a_thing_once_it_has_come_about(said: list[str], telling: Telling) -> None:
    answers = ["", "not yet"]

    async def check() -> str:
        return answers.pop()

    await Telling(said.append, _go_on, patience=60.0).until("Pods run", check)
    assert not answers
    assert said[0].startswith("   Pods run (")


async def test_what_does_not_come_about_ends_it_and_is_told(said: list[str], telling: Telling) -> None:
    async def never() -> str:
        return "Pods are {}"

    with pytest.raises(FailedError, match=r"not within 0 s: Pods run; Pods are \{\}"):
        await telling.until("Pods run", never)
    assert said == []


def test_what_is_not_so_is_not_said(said: list[str], telling: Telling) -> None:
    with pytest.raises(FailedError, match="this is not so: they are apart"):
        telling.require("they are apart", 1 > 2)
    assert said == []


def test_steps_need_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["demo", "--step"]) == 2
    assert "there is no terminal" in capsys.readouterr().err
