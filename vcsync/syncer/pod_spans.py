"""The time during which Pods of tenants ran in a super cluster, and the resources that it took. Pure.

Everything comes from the Pod in the super cluster: its requests, which the scheduler there charges, and the status that its
kubelet writes. A tenant can write neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.objects.envelope import Envelope
from vcsync.quota.usage import NONE, pod_total

HOUR = 3_600_000
"""Milliseconds of an hour."""

ENDED = ("Succeeded", "Failed")
NO_QOS = "BestEffort"


class Span(Struct, frozen=True):
    """The time during which a Pod runs. Times are in milliseconds since the epoch.

    Attributes:
        tenant: Cluster key of the tenant.
        pod_class: QoS class of the Pod, followed by `/` and its RuntimeClass if it has one.
        begin: When the kubelet accepted the Pod.
        end: When its last container ended. None: it runs.
        cpu: Requested CPU in thousandths of a core.
        memory: Requested memory in bytes.
    """

    tenant: str
    pod_class: str
    begin: int
    end: int | None
    cpu: int
    memory: int

    def overlap(self, begin: int, end: int) -> int:
        """Return how many milliseconds of an interval the Pod runs."""
        last = end if self.end is None else min(end, self.end)
        return max(0, last - max(begin, self.begin))


class Seconds(Struct, frozen=True, rename="camel"):
    """Running time of Pods. Integers of small units, so that sums are exact.

    Attributes:
        pod_milliseconds: Running time, added up over all Pods.
        cpu_microseconds: Requested CPU times running time, in microseconds of one core.
        memory_byte_milliseconds: Requested memory times running time.
    """

    pod_milliseconds: int = 0
    cpu_microseconds: int = 0
    memory_byte_milliseconds: int = 0

    def plus(self, span: Span, milliseconds: int) -> Seconds:
        """Return the sum with a part of a span."""
        return Seconds(
            self.pod_milliseconds + milliseconds,
            self.cpu_microseconds + span.cpu * milliseconds,
            self.memory_byte_milliseconds + span.memory * milliseconds,
        )


Totals = dict[str, dict[str, Seconds]]
"""Cluster key -> class of Pods -> what they took."""

_totals = msgspec.json.Decoder(dict[str, Seconds])


class _Finished(Struct, frozen=True, gc=False, rename="camel"):
    finished_at: str | None = None


class _State(Struct, frozen=True, gc=False):
    terminated: _Finished | None = None


class _Container(Struct, gc=False):
    state: _State = _State()


class _Status(Struct, gc=False, rename="camel"):
    start_time: str | None = None
    phase: str = ""
    qos_class: str = NO_QOS
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


_status = msgspec.json.Decoder(_Status)


def span_of(pod: Envelope, ended: int = 0) -> Span | None:
    """Return the time during which a Pod runs, or None if it has not begun or belongs to no tenant.

    Args:
        pod: The Pod in the super cluster.
        ended: When an ended Pod was seen to end, in case that its containers do not say so, such as those of an evicted one.

    Raises:
        ValueError, msgspec.MsgspecError: The Pod is malformed.
    """
    tenant = pod.annotations.get(names.CLUSTER, "")
    namespace = pod.annotations.get(names.NAMESPACE, "")
    if not tenant or pod.namespace != names.super_namespace(tenant, namespace) or not pod.status:
        return None
    status = _status.decode(pod.status)
    if not status.start_time:
        return None
    spec: dict[str, Any] = msgspec.json.decode(pod.spec) if pod.spec else {}
    requests = pod_total(spec, "requests")
    runtime = spec.get("runtimeClassName")
    begin = milliseconds(status.start_time)
    return Span(
        tenant,
        f"{status.qos_class}/{runtime}" if runtime else status.qos_class,
        begin,
        max(begin, _ended_at(status) or ended) if status.phase in ENDED else None,
        requests.get("cpu", NONE).milli,
        requests.get("memory", NONE).milli // 1000,
    )


def _ended_at(status: _Status) -> int:
    """Return when the last container ended. 0: no container says so."""
    containers = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    times = [each.state.terminated.finished_at for each in containers if each.state.terminated is not None]
    return max((milliseconds(each) for each in times if each), default=0)


def milliseconds(text: str) -> int:
    """Read a time in RFC 3339 as milliseconds since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def hour_text(hour: int) -> str:
    """Return the hour of a time in milliseconds as part of a name, for example `2026112505`."""
    return datetime.fromtimestamp(hour / 1000, UTC).strftime("%Y%m%d%H")


def pieces(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide an interval at the hours."""
    while begin < end:
        last = min(end, begin // HOUR * HOUR + HOUR)
        yield begin, last
        begin = last


def add(totals: Totals, spans: Iterable[Span], begin: int, end: int) -> None:
    """Add what Pods took in an interval to totals."""
    for span in spans:
        overlap = span.overlap(begin, end)
        if overlap:
            classes = totals.setdefault(span.tenant, {})
            classes[span.pod_class] = classes.get(span.pod_class, Seconds()).plus(span, overlap)


def encode(totals: Totals) -> dict[str, str]:
    """Return totals as the data of a ConfigMap."""
    return {tenant: msgspec.json.encode(classes).decode() for tenant, classes in totals.items()}


def decode(data: dict[str, str]) -> Totals:
    """Read the data of a ConfigMap.

    Raises:
        msgspec.MsgspecError: It is malformed.
    """
    return {tenant: _totals.decode(classes) for tenant, classes in data.items()}
