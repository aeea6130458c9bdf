"""Decisions of a reflector about its next request."""

import pytest

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
from vcsync.kube.reflector_state import InitialEventsLost, ReflectorState, Step


def state(*, streaming: bool = True) -> ReflectorState:
    return ReflectorState(streaming=streaming, base=1.0, cap=30.0, jitter=lambda: 1.0)


def gone() -> Gone:
    return Gone(Status(code=410))


def too_large() -> ServerError:
    causes = (StatusCause(reason="ResourceVersionTooLarge"),)
    return ServerError(Status(code=504, details=StatusDetails(causes=causes)))


def test_the_first_request_is_a_list_and_the_next_a_watch() -> None:
    c = state()
    assert c.next() is Step.STREAM
    assert (c.list_version, c.reset) == ("0", False)
    c.listed("5")
    assert c.next() is Step.WATCH


@pytest.mark.parametrize(
    "error",
    [BadRequest(Status(code=400)), Invalid(Status(code=422)), InitialEventsLost("", ignored=True)],
)
def test_refused_streaming_lists_are_not_repeated(error: KubeError) -> None:
    c = state()
    assert c.failed(error, 0) == 0
    assert c.next() is Step.PAGES


def test_streaming_lists_are_not_repeated_after_two_incomplete_ones() -> None:
    c = state()
    assert c.failed(InitialEventsLost(""), 0) > 0
    assert c.next() is Step.STREAM
    assert c.failed(InitialEventsLost(""), 0) == 0
    assert c.next() is Step.PAGES


def test_a_complete_list_resets_the_count_of_incomplete_streaming_lists() -> None:
    c = state()
    for version in ("5", "6", "7"):
        c.failed(InitialEventsLost("cut"), 0)
        c.listed(version)
        c.failed(gone(), 60)
        assert c.next() is Step.STREAM


def test_a_lost_stream_is_resumed() -> None:
    c = state()
    c.listed("5")
    c.advanced("7")
    c.failed(Unreachable("cut"), 100)
    assert (c.next(), c.version) == (Step.WATCH, "7")
    c.watching()
    assert c.counters.resumes == 1


def test_410_requests_the_newest_list() -> None:
    c = state()
    c.listed("5")
    c.failed(gone(), 100)
    assert (c.next(), c.list_version, c.reset) == (Step.STREAM, "", False)


def test_pauses_after_410_are_spread_over_more_time_than_after_a_lost_stream() -> None:
    c, lost = state(), state()
    for each in (c, lost):
        each.listed("5")
    assert c.failed(gone(), 60) > 1
    assert lost.failed(Unreachable("x"), 60) == 1


def test_pauses_after_410_are_spread_over_five_times_those_after_a_lost_stream() -> None:
    """A compaction ends all streams at the same time, and lists are expensive."""

    def spread(error: KubeError) -> float:
        pauses = []
        for jitter in (0.0, 1.0):
            c = ReflectorState(base=1.0, cap=30.0, jitter=lambda jitter=jitter: jitter)  # type: ignore[misc]
            c.listed("5")
            pauses.append(c.failed(error, 60))
        return pauses[1] - pauses[0]

    assert spread(gone()) >= 5 * spread(Unreachable("cut")) > 0


def test_a_version_from_the_future_means_another_history() -> None:
    c = state()
    c.listed("5")
    c.failed(too_large(), 100)
    assert (c.next(), c.list_version, c.reset) == (Step.STREAM, "", True)
    c.listed("3")
    assert not c.reset


def test_lists_that_keep_expiring_get_larger_pages() -> None:
    c = state(streaming=False)
    factors = []
    for _ in range(4):
        factors.append(c.page_factor)
        c.failed(gone(), 0)
    assert factors == [1, 4, 0, 0]
    c.listed("5")
    assert c.page_factor == 1


def test_pauses_grow_to_the_cap_and_start_over_after_a_steady_stream() -> None:
    c = state()
    c.listed("5")
    pauses = [c.failed(Unreachable("x"), 0) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert c.failed(Unreachable("x"), 60) == 1


def test_streams_that_end_immediately_count_as_failures_and_long_ones_do_not() -> None:
    c = state()
    c.listed("5")
    assert [c.ended(0.1) for _ in range(3)] == [1, 2, 4]
    assert c.ended(300) <= 1


@pytest.mark.parametrize(
    "error",
    [TooManyRequests(Status(code=429), retry_after=20.0), CircuitOpen("x", retry_after=20.0)],
)
def test_retry_after_extends_the_pause(error: KubeError) -> None:
    c = state()
    c.listed("5")
    assert c.failed(error, 60) >= 20


def test_a_very_long_retry_after_is_limited() -> None:
    c = state()
    c.listed("5")
    assert c.failed(TooManyRequests(Status(code=429), retry_after=86_400.0), 60) <= 301
