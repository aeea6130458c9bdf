"""What is asked of a log: PodLogOptions. Pure.

Rules and words: Kubernetes' `pkg/apis/core/validation/validation.go`, ValidatePodLogOptions.
"""

from datetime import datetime

from vcsync.controlplane.errors import FieldError, bad_request, invalid, not_allowed, wrong
from vcsync.controlplane.rest.options import number
from vcsync.controlplane.rest.requestinfo import Query, truth

FLAGS = ("follow", "previous", "timestamps")
NUMBERS = (
    ("tailLines", 0, "must be greater than or equal to 0"),
    ("limitBytes", 1, "must be greater than 0"),
    ("sinceSeconds", 1, "must be greater than 0"),
)


def log_options(name: str, query: Query) -> list[tuple[str, str]]:
    """Return the options as a kubelet is told them.

    Args:
        name: of the Pod, for the message.
        query: of the request.

    Raises:
        StatusError: 400 for what cannot be read, 422 for what is not allowed.
    """
    numbers = {key: number(query, key) for key, _, _ in NUMBERS}
    since = _time(query)
    findings = _findings(numbers, since, query)
    if findings:
        raise invalid("PodLogOptions", "", name, findings)
    told = [(each, "true") for each in FLAGS if truth(query.get(each, ()))]
    told += [(key, str(value)) for key, value in numbers.items() if value is not None]
    return told + ([("sinceTime", since)] if since else [])


def _findings(numbers: dict[str, int | None], since: str, query: Query) -> list[FieldError]:
    findings = [
        wrong(key, value, detail)
        for key, least, detail in NUMBERS
        if (value := numbers[key]) is not None and value < least and not (key == "sinceSeconds" and since)
    ]
    if since and numbers["sinceSeconds"] is not None:
        told = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        findings.append(not_allowed("", told))
    if query.get("stream"):
        findings.append(not_allowed("stream", "may not be specified"))
    return findings


def _time(query: Query) -> str:
    text = (query.get("sinceTime") or ("",))[0]
    try:
        return text if not text or datetime.fromisoformat(text).tzinfo else ""
    except ValueError as error:
        raise bad_request(f"sinceTime: {error}") from error
