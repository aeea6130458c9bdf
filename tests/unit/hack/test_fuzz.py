"""The fuzzer's requests are reproducible from a seed and a number."""

import time

import pytest

from hack.fuzz.run import request


def test_a_request_does_not_depend_on_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [request(5, number) for number in range(300)]
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert [request(5, number) for number in range(300)] == first
