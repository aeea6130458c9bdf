"""Answers that are given again: once promised, for a limited time and in a limited number."""

from types import SimpleNamespace

import pytest

from vcsync.podscheduler import replays
from vcsync.podscheduler.promises import PROMISED_SECONDS
from vcsync.podscheduler.replays import Replays


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.given_back = 0
        self.replays = Replays(lambda: self.now)

    def ask(self):
        self.asked += 1
        return SimpleNamespace(number=self.asked, give_back=self.give_back)

    def give_back(self):
        self.given_back += 1


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_review_that_is_repeated_promises_once(stage):
    first, repeated = stage.replays.answer("u", stage.ask)
    assert not repeated
    assert stage.replays.answer("u", stage.ask) == (first, True)
    assert stage.asked == 1


def test_that_nothing_was_promised_is_repeated_too(stage):
    assert stage.replays.answer("u", lambda: None) == (None, False)
    assert stage.replays.answer("u", stage.ask) == (None, True)


def test_an_answer_is_forgotten_with_its_promise(stage):
    stage.replays.answer("u", stage.ask)
    stage.now = PROMISED_SECONDS
    assert not stage.replays.answer("u", stage.ask)[1]
    assert (stage.asked, len(stage.replays)) == (2, 1)


def test_an_answer_that_was_not_sent_is_decided_again(stage):
    stage.replays.answer("u", stage.ask)
    stage.replays.withdraw("u")
    stage.replays.withdraw("u")
    assert stage.given_back == 1
    assert not stage.replays.answer("u", stage.ask)[1]


def test_a_flood_is_remembered_in_part(stage, monkeypatch):
    monkeypatch.setattr(replays, "MOST_ANSWERS", 5)
    for number in range(50):
        stage.replays.answer(str(number), stage.ask)
    assert len(stage.replays) == 5
    assert stage.replays.answer("49", stage.ask)[1]
