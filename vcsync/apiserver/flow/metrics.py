"""Metrics of a tenant's priority levels, under kube-apiserver's names, and of its waiting writes. Pure."""

from collections.abc import Callable, Iterator

from vcsync.apiserver.flow.priority_level import Level
from vcsync.apiserver.flow.tenant_queues import Space

_GAUGES: tuple[tuple[str, str, Callable[[Level], int]], ...] = (
    (
        "nominal_limit_seats",
        "Nominal number of execution seats configured for each priority level",
        lambda level: level.nominal,
    ),
    (
        "lower_limit_seats",
        "Configured lower bound on number of execution seats available to each priority level",
        lambda level: level.lower,
    ),
    (
        "upper_limit_seats",
        "Configured upper bound on number of execution seats available to each priority level",
        lambda level: level.upper,
    ),
    (
        "current_executing_seats",
        "Seats occupied by the requests of each priority level that are being served",
        lambda level: level.in_use,
    ),
)
_PREFIX = "apiserver_flowcontrol_"


def text(space: Space, waiting: int) -> bytes:
    """Return a tenant's metrics in Prometheus' text format; `waiting` is the number of writes that wait for a slot."""
    return "\n".join([*_lines(space), *_own(waiting), ""]).encode()


def _own(waiting: int) -> Iterator[str]:
    """Yield the metrics that kube-apiserver does not have."""
    yield "# HELP vcsync_writes_waiting Writes that wait for others of their namespace"
    yield "# TYPE vcsync_writes_waiting gauge"
    yield f"vcsync_writes_waiting {waiting}"


def _lines(space: Space) -> Iterator[str]:
    levels = sorted(space.levels.values(), key=lambda each: each.name)
    for name, help_text, value in _GAUGES:
        yield from _head(name, help_text, "gauge")
        for level in levels:
            yield f'{_PREFIX}{name}{{priority_level="{level.name}"}} {value(level)}'
    yield from _head("current_inqueue_requests", "Number of requests that wait in queues", "gauge")
    for level in levels:
        yield f'{_PREFIX}current_inqueue_requests{{priority_level="{level.name}"}} {level.waiting}'
    yield from _head("dispatched_requests_total", "Number of requests served", "counter")
    for level in levels:
        for schema, count in sorted(level.dispatched.items()):
            labels = f'flow_schema="{schema}",priority_level="{level.name}"'
            yield f"{_PREFIX}dispatched_requests_total{{{labels}}} {count}"
    yield from _head("rejected_requests_total", "Number of requests refused", "counter")
    for level in levels:
        for (reason, schema), count in sorted(level.refused.items()):
            labels = f'flow_schema="{schema}",priority_level="{level.name}",reason="{reason}"'
            yield f"{_PREFIX}rejected_requests_total{{{labels}}} {count}"


def _head(name: str, help_text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {help_text}"
    yield f"# TYPE {_PREFIX}{name} {kind}"
