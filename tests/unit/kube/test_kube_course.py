"""What a reflector asks next."""

import pytest

from vcsync.kube.course import Course, InitialEventsLost, Step
from vcsync.kube.errors import (
    BadRequest,
    CircuitOpen,
    Gone,
    Invalid,
    KubeError,
    ServerError,
    Status,
    StatusCause,
    StatusDetails,
    TooManyRequests,
    Unreachable,
)


def course(*, streaming: bool = True) -> Course:
    return Course(streaming=streaming, base=1.0, cap=30.0, jitter=lambda: 1.0)


def gone() -> Gone:
    return Gone(Status(code=410))


def too_large() -> ServerError:
    causes = (StatusCause(reason="ResourceVersionTooLarge"),)
    return ServerError(Status(code=504, details=StatusDetails(causes=causes)))


def test_it_lists_first_and_watches_then() -> None:
    c = course()
    assert c.next() is Step.STREAM
    assert c.list_version == "0"
    c.listed("5")
    assert c.next() is Step.WATCH


@pytest.mark.parametrize(
    "error",
    [BadRequest(Status(code=400)), Invalid(Status(code=422)), InitialEventsLost("", ignored=True)],
)
def test_streaming_lists_are_given_up_at_once_where_they_are_refused(error: KubeError) -> None:
    c = course()
    assert c.failed(error, 0) == 0
    assert c.next() is Step.PAGES


def test_streaming_lists_that_do_not_end_are_given_up_the_second_time() -> None:
    c = course()
    assert c.failed(InitialEventsLost(""), 0) > 0
    assert c.next() is Step.STREAM
    assert c.failed(InitialEventsLost(""), 0) == 0
    assert c.next() is Step.PAGES


def test_streaming_lists_that_did_not_end_long_ago_are_no_reason_to_give_them_up() -> None:
    c = course()
    for version in ("5", "6", "7"):
        c.failed(InitialEventsLost("cut"), 0)
        c.listed(version)
        c.failed(gone(), 60)
        assert c.next() is Step.STREAM


def test_a_lost_stream_is_resumed() -> None:
    c = course()
    c.listed("5")
    c.advanced("7")
    c.failed(Unreachable("cut"), 100)
    assert (c.next(), c.version) == (Step.WATCH, "7")
    c.watching()
    assert c.tally.resumes == 1


def test_410_asks_for_the_newest_list() -> None:
    c = course()
    c.listed("5")
    c.failed(gone(), 100)
    assert (c.next(), c.list_version, c.reset) == (Step.STREAM, "", False)


def test_a_version_from_the_future_means_another_history() -> None:
    c = course()
    c.listed("5")
    c.failed(too_large(), 100)
    assert (c.next(), c.list_version, c.reset) == (Step.STREAM, "", True)
    c.listed("3")
    assert not c.reset


def test_lists_that_keep_expiring_become_shorter_trips() -> None:
    c = course(streaming=False)
    factors = []
    for _ in range(4):
        factors.append(c.page_factor)
        c.failed(gone(), 0)
    assert factors == [1, 4, 0, 0]
    c.listed("5")
    assert c.page_factor == 1


def test_pauses_grow_to_the_cap_and_start_over_after_a_steady_stream() -> None:
    c = course()
    c.listed("5")
    pauses = [c.failed(Unreachable("x"), 0) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert c.failed(Unreachable("x"), 60) == 1


def test_streams_that_end_at_once_count_as_failures_and_long_ones_do_not() -> None:
    c = course()
    c.listed("5")
    assert [c.ended(0.1) for _ in range(3)] == [1, 2, 4]
    assert c.ended(300) <= 1


@pytest.mark.parametrize(
    "error",
    [TooManyRequests(Status(code=429), retry_after=20.0), CircuitOpen("x", retry_after=20.0)],
)
def test_it_waits_as_long_as_it_is_asked_to(error: KubeError) -> None:
    c = course()
    c.listed("5")
    assert c.failed(error, 60) >= 20


def test_it_does_not_stay_away_for_as_long_as_anybody_asks_for() -> None:
    c = course()
    c.listed("5")
    assert c.failed(TooManyRequests(Status(code=429), retry_after=86_400.0), 60) <= 301
