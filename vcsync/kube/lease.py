"""Leader election by a Lease: at most one of several processes leads, and another takes over when it is gone.

Clocks of different machines are not compared: whether a holder is alive follows from when this process sees its renewals.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, describe
from vcsync.kube.resources import LEASES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import micro_time_text
from vcsync.process import lifetime

_RELEASE_SECONDS = 5.0
"""Time limit for the release of the lease."""
_log = structlog.get_logger(__name__)


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """The `spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class HolderMonitor:
    """Decides from the renewals of a Lease whether its holder is alive. Pure. `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._seen: tuple[str | None, str | None] | None = None
        self._since = 0.0

    def expired(self, spec: LeaseSpec, now: float) -> bool:
        """Return whether the lease has no holder, or its holder has not renewed it for its duration."""
        if not spec.holder_identity:
            return True
        seen = (spec.holder_identity, spec.renew_time)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since >= (spec.lease_duration_seconds or 0)


class LeaseValidity:
    """Computes how long a holder certainly has its lease. Pure; times are in monotonic seconds.

    The server may have processed a write as soon as it was sent, however late its answer arrives. Other processes wait for
    the lease's duration from when they see the write, which is never earlier than when it was sent.

    Args:
        seconds: How long the lease is certain after an answered write.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = -math.inf

    def written(self, sent: float) -> None:
        """Record that a write sent at `sent` has acquired or renewed the lease."""
        self._until = max(self._until, sent + self._seconds)

    def left(self, now: float) -> float:
        """Return the seconds for which the lease is certain; 0 if it is not."""
        return max(0.0, self._until - now)

    def end(self) -> None:
        """Forget all writes: the lease is not certain any more."""
        self._until = -math.inf


class LeaderElector:
    """Runs a function while this process holds a Lease.

    Args:
        client: Client of the cluster with the Lease.
        name: The Lease's name.
        namespace: Its namespace.
        identity: Name of this process; unique.
        lease_seconds: Seconds without renewal after which other processes may take over.
        renew_seconds: Seconds without renewal after which this process stops leading, counted from when the last answered
            request was sent; less than `lease_seconds`. It is also the timeout of requests for the lease.
        retry_seconds: Seconds between two attempts to acquire or renew the lease.
        clock: Monotonic seconds.
        ended: Returns whether the process of an identity has certainly ended, so that its lease need not expire.

    Raises:
        ValueError: `retry_seconds < renew_seconds < lease_seconds` does not hold.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        lease_seconds: float = 15,
        renew_seconds: float = 10,
        retry_seconds: float = 2,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[str], bool] = lifetime.ended,
    ) -> None:
        if not 0 < retry_seconds < renew_seconds < lease_seconds:
            raise ValueError("leader election: retry_seconds < renew_seconds < lease_seconds must hold")
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._ended = ended
        self._holder_monitor = HolderMonitor()
        self._validity = LeaseValidity(renew_seconds)
        self._held: Envelope | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease, as far as it knows."""
        return self._held is not None

    @property
    def is_sure(self) -> bool:
        """Whether no other process can hold the lease yet. Check this before a write that only a leader may send."""
        return self._held is not None and self._validity.left(self._clock()) > 0

    @property
    def term(self) -> str:
        """A unique name of the current term, which differs from those of all earlier terms. Empty while not leading."""
        if self._held is None:
            return ""
        return f"{decode(self._held.spec, LeaseSpec).lease_transitions or 0}.{self._held.uid}"

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while this process holds it, and wait again when it is lost.

        It ends when `lead` returns or raises, or when it is cancelled. Then it releases the lease.
        """
        while True:
            await self._acquire()
            _log.info("lease.acquired", lease=self._name, identity=self._identity)
            try:
                if await self._lead(lead):
                    return
            finally:
                await self._release()
            _log.warning("lease.lost", lease=self._name, identity=self._identity)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run `lead` and renew the lease. Return True if `lead` ended by itself, False if the lease was lost."""
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return True
            renewal.result()
            return False
        finally:
            # Another process may get the lease only after the work has stopped, so the lease is renewed until then.
            await _stop(work)
            await _stop(renewal)

    async def _acquire(self) -> None:
        while True:
            sent = self._clock()
            try:
                async with asyncio.timeout(self._renew_seconds):
                    held = await self._try_acquire()
            except (KubeError, TimeoutError) as error:
                _log.warning("lease.unavailable", lease=self._name, **describe(error))
                held = None
            if held is not None:
                self._validity.written(sent)
                if self._validity.left(self._clock()) > 0:
                    self._held = held
                    return
                _log.warning("lease.answered_too_late", lease=self._name)
            await asyncio.sleep(self._retry_seconds)

    async def _try_acquire(self) -> Envelope | None:
        try:
            current = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            body = {"metadata": {"name": self._name}, "spec": self._spec(None)}
            with suppress(AlreadyExists):
                return await self._client.create(LEASES, body, self._namespace)
            return None
        spec = decode(current.spec, LeaseSpec)
        if not self._may_take(spec):
            return None
        with suppress(Conflict, NotFound):
            return await self._write(current, self._spec(spec))
        return None

    def _may_take(self, spec: LeaseSpec) -> bool:
        if spec.holder_identity == self._identity or self._holder_monitor.expired(spec, self._clock()):
            return True
        if not self._ended(spec.holder_identity or ""):
            return False
        _log.info("lease.holder_has_ended", lease=self._name, holder=spec.holder_identity)
        return True

    async def _renew(self) -> None:
        """Renew the lease until that has failed for too long or another process holds the lease."""
        while left := self._validity.left(self._clock()):
            await asyncio.sleep(min(self._retry_seconds, left))
            sent = self._clock()
            try:
                async with asyncio.timeout(self._validity.left(sent)):
                    if not await self._try_renew():
                        return
                self._validity.written(sent)
            except (KubeError, TimeoutError) as error:
                _log.warning("lease.renewal_failed", lease=self._name, **describe(error))

    async def _try_renew(self) -> bool:
        if self._held is None:
            return False
        try:
            self._held = await self._write(self._held, {"renewTime": _now()})
        except NotFound:
            return False
        except Conflict:
            # Another process wrote the lease, or the answer to the last renewal was lost: read the holder.
            current = await self._client.get(LEASES, self._name, self._namespace)
            if decode(current.spec, LeaseSpec).holder_identity != self._identity:
                return False
            self._held = await self._write(current, {"renewTime": _now()})
        return True

    async def _release(self) -> None:
        held, self._held = self._held, None
        self._validity.end()
        if held is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._clear_holder(held)
        except (KubeError, TimeoutError) as error:
            _log.info("lease.not_released", lease=self._name, **describe(error))

    async def _clear_holder(self, held: Envelope) -> None:
        released: dict[str, object] = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _now()}
        try:
            await self._write(held, released)
        except Conflict:
            # A cancelled renewal may have reached the server.
            current = await self._client.get(LEASES, self._name, self._namespace)
            if decode(current.spec, LeaseSpec).holder_identity == self._identity:
                await self._write(current, released)

    async def _write(self, current: Envelope, spec: dict[str, object]) -> Envelope:
        patch = {"metadata": {"resourceVersion": current.resource_version}, "spec": spec}
        return await self._client.patch(LEASES, self._name, patch, self._namespace)

    def _spec(self, before: LeaseSpec | None) -> dict[str, object]:
        now = _now()
        # It increases even if this process held the lease before, because each acquisition begins a new term.
        transitions = 0 if before is None else (before.lease_transitions or 0) + 1
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(round(self._lease_seconds), 1),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


def _now() -> str:
    return micro_time_text(datetime.now(UTC))


async def _stop(task: "asyncio.Future[None]") -> None:
    """Cancel a task, wait for its end, and log its error."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("lease.stopped_with_error", **describe(error))
