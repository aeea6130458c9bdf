"""Validation and conversion of PodLogOptions."""

from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.log_options import log_options


def test_options_become_parameters_of_the_kubelet() -> None:
    query = {
        "follow": ["true"],
        "previous": ["false"],
        "timestamps": ["1"],
        "tailLines": ["0"],
        "limitBytes": ["10"],
        "sinceTime": ["2026-01-01T00:00:00Z"],
    }
    assert log_options("p", query) == [
        ("follow", "true"),
        ("timestamps", "true"),
        ("tailLines", "0"),
        ("limitBytes", "10"),
        ("sinceTime", "2026-01-01T00:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"tailLines": ["-1"]}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": ["0"]}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": ["0"]}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": ["1"], "sinceTime": ["2026-01-01T00:00:00Z"]},
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ({"stream": ["Stdout"]}, 422, "stream: Forbidden: may not be specified"),
        ({"tailLines": ["x"]}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"sinceTime": ["noon"]}, 400, "sinceTime"),
    ],
)
def test_invalid_options_are_refused(query: Any, code: int, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        log_options("p", query)
    assert caught.value.code == code
    assert message in caught.value.message
