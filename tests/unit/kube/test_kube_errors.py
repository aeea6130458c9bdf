"""Conversion of responses to errors."""

import json
from typing import Any

import pytest

from vcsync.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    CircuitOpen,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    api_error,
    describe,
)


def status(code: int, reason: str = "", message: str = "no", **details: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details or None}
    ).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (413, TooLarge),
        (418, ApiError),
        (422, Invalid),
        (429, TooManyRequests),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_each_code_has_an_error_type(code: int, kind: type[ApiError]) -> None:
    error = api_error(code, status(code), endpoint="acme", request="GET /api/v1/pods")
    assert type(error) is kind
    assert (error.status.code, error.endpoint) == (code, "acme")
    assert str(error) == f"acme: GET /api/v1/pods: {code} no"
    assert str(api_error(code, status(code))) == f"{code} no"


def test_conflicts_of_names_and_of_uids_have_different_types() -> None:
    assert type(api_error(409, status(409, "AlreadyExists"))) is AlreadyExists
    causes = [{"field": "metadata.uid", "message": "differs"}]
    assert type(api_error(422, status(422, "Invalid", causes=causes))) is Conflict
    causes = [{"field": "spec", "message": "odd"}]
    assert type(api_error(422, status(422, "Invalid", causes=causes))) is Invalid


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        (None, {}, None),
        (None, {"retryAfterSeconds": 7}, 7.0),
        (None, {"retryAfterSeconds": 0}, None),
        (3.0, {"retryAfterSeconds": 7}, 3.0),
        (3.0, {}, 3.0),
    ],
)
def test_retry_after_is_read_from_the_header_or_the_body(
    header: float | None, details: dict[str, Any], seconds: float | None
) -> None:
    assert api_error(429, status(429, **details), retry_after=header).retry_after == seconds


@pytest.mark.parametrize("body", [b"<html>secret</html>", b"", b'{"kind":"Pod","message":"secret"}'])
def test_a_body_that_is_not_a_status_is_withheld(body: bytes) -> None:
    error = api_error(502, body)
    assert type(error) is ServerError
    assert str(error) == f"502 the response of {len(body)} bytes is not a Kubernetes Status"


def test_the_response_for_unknown_paths_is_recognized() -> None:
    error = api_error(404, b"404 page not found\n")
    assert (type(error), str(error), error.status.reason) == (NotFound, "404 page not found", "NotFound")


def test_an_error_within_a_stream_has_the_code_of_its_status() -> None:
    assert type(api_error(0, status(410, "Expired"))) is Gone
    assert api_error(0, b"").status.code == 500


def test_errors_are_described_for_logs() -> None:
    assert describe(api_error(403, status(403, "Forbidden"), endpoint="acme")) == {
        "error": "acme: 403 no",
        "error_type": "Forbidden",
        "code": 403,
        "reason": "Forbidden",
    }
    assert describe(ValueError("x")) == {"error": "x", "error_type": "ValueError"}


def test_an_open_circuit_has_sent_nothing_and_has_retry_after() -> None:
    error = CircuitOpen("it fails all the time", retry_after=2.5)
    assert (error.sent, error.retry_after, error.endpoint, str(error)) == (
        False,
        2.5,
        "",
        "it fails all the time",
    )
