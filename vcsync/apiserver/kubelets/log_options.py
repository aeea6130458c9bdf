"""Validates PodLogOptions and converts them to the query of a kubelet. Pure.

Rules and messages: Kubernetes' `pkg/apis/core/validation/validation.go`, ValidatePodLogOptions.
"""

from datetime import datetime

from vcsync.apimachinery.errors import FieldError, bad_request, invalid, not_allowed, wrong
from vcsync.apiserver.request.options import number
from vcsync.apiserver.request.request_info import Query, truth

FLAGS = ("follow", "previous", "timestamps")
"""Options that are booleans."""
NUMBERS = (
    ("tailLines", 0, "must be greater than or equal to 0"),
    ("limitBytes", 1, "must be greater than 0"),
    ("sinceSeconds", 1, "must be greater than 0"),
)
"""Options that are numbers: name, least value, and message for a smaller one."""


def log_options(name: str, query: Query) -> list[tuple[str, str]]:
    """Return the parameters of a kubelet's log endpoint as (name, value).

    Args:
        name: Name of the Pod, for messages.
        query: Query of the request.

    Raises:
        StatusError: 400 if an option cannot be parsed, 422 if its value is not allowed.
    """
    numbers = {key: number(query, key) for key, _, _ in NUMBERS}
    since = _time(query)
    findings = _findings(numbers, since, query)
    if findings:
        raise invalid("PodLogOptions", "", name, findings)
    parameters = [(each, "true") for each in FLAGS if truth(query.get(each, ()))]
    parameters += [(key, str(value)) for key, value in numbers.items() if value is not None]
    return parameters + ([("sinceTime", since)] if since else [])


def _findings(numbers: dict[str, int | None], since: str, query: Query) -> list[FieldError]:
    findings = [
        wrong(key, value, detail)
        for key, least, detail in NUMBERS
        if (value := numbers[key]) is not None and value < least and not (key == "sinceSeconds" and since)
    ]
    if since and numbers["sinceSeconds"] is not None:
        findings.append(not_allowed("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if query.get("stream"):
        findings.append(not_allowed("stream", "may not be specified"))
    return findings


def _time(query: Query) -> str:
    text = (query.get("sinceTime") or ("",))[0]
    try:
        return text if not text or datetime.fromisoformat(text).tzinfo else ""
    except ValueError as error:
        raise bad_request(f"sinceTime: {error}") from error
