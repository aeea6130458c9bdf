"""Validation of probes and lifecycle hooks. Pure.

Source: `validateProbe`, `validateHandler` and `validateStopSignal` in Kubernetes' `pkg/apis/core/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    items,
    needed,
    nonnegative,
    number,
    one_of,
    port_or_name,
    say,
    text,
)

_PLAIN_SIGNALS = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP"
    " TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX"
)
_SIGNALS = tuple(
    sorted(
        [
            *(f"SIG{each}" for each in _PLAIN_SIGNALS.split()),
            *(f"SIGRTMIN+{number}" for number in range(1, 16)),
            *(f"SIGRTMAX-{number}" for number in range(1, 15)),
        ]
    )
)
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


def _exec(path: str, found: Object, _grace: int | None) -> Findings:
    if not items(found, "command"):
        yield errors.required(f"{path}.command")


def _http(path: str, found: Object, _grace: int | None) -> Findings:
    yield from needed(found, "path", path)
    yield from port_or_name(f"{path}.port", found.get("port"))
    yield from one_of(f"{path}.scheme", text(found, "scheme"), ("HTTP", "HTTPS"))
    for header in items(found, "httpHeaders"):
        yield from say(f"{path}.httpHeaders", text(header, "name"), names.header_name(text(header, "name")))


def _port(path: str, found: Object, _grace: int | None) -> Findings:
    yield from port_or_name(f"{path}.port", found.get("port"))


def _sleep(path: str, found: Object, grace: int | None) -> Findings:
    seconds = number(found, "seconds")
    if grace is not None and not 0 <= seconds <= grace:
        yield errors.wrong(
            path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        )


_HANDLERS = {"exec": _exec, "httpGet": _http, "tcpSocket": _port, "grpc": _port, "sleep": _sleep}


def handlers(path: str, found: Object, grace: int | None, *, hook: bool = False) -> Findings:
    """Check the handler of a probe or lifecycle hook: exactly one must be given."""
    given = 0
    for key, check in _HANDLERS.items():
        if key == ("grpc" if hook else "sleep") or not isinstance(found.get(key), dict):
            continue
        given += 1
        if given > 1:
            yield errors.not_allowed(f"{path}.{key}", "may not specify more than 1 handler type")
        else:
            yield from check(f"{path}.{key}", found[key], grace)
    if not given:
        yield errors.required(path, "must specify a handler type")


def probe(path: str, kind: str, found: Object, grace: int | None) -> Findings:
    """Check a probe; `kind` is the name of its field."""
    yield from handlers(path, found, grace)
    yield from nonnegative(
        found,
        path,
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    )
    own = found.get("terminationGracePeriodSeconds")
    if isinstance(own, int) and own <= 0:
        yield errors.wrong(f"{path}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if kind == "readinessProbe":
        if own is not None:
            yield errors.wrong(
                f"{path}.terminationGracePeriodSeconds", own, "must not be set for readinessProbes"
            )
    elif number(found, "successThreshold") != 1:
        yield errors.wrong(f"{path}.successThreshold", number(found, "successThreshold"), "must be 1")


def stop_signal(path: str, signal: str, system: str) -> Findings:
    """Check the signal that stops a container."""
    if not system:
        yield errors.not_allowed(path, "may not be set for containers with empty `spec.os.name`")
    elif system == "windows":
        yield from one_of(path, signal, _WINDOWS_SIGNALS)
    elif system == "linux":
        yield from one_of(path, signal, _SIGNALS)
