"""Leader election by a Lease object: at most one of several processes acts, another takes over when it is gone.

No clock is compared with another machine's: whether a holder is alive shows in its renewals, as seen from here.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from msgspec import Struct

from vcsync.kube import lifetime
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, describe
from vcsync.kube.resources import LEASES

_RELEASE_SECONDS = 5.0  # that giving the lease back may take
_log = structlog.get_logger(__name__)


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """The `spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Watchman:
    """Judges by a Lease's renewals whether its holder is alive. Pure; `now` is a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._seen: tuple[str | None, str | None] | None = None
        self._since = 0.0

    def expired(self, spec: LeaseSpec, now: float) -> bool:
        """Whether nobody holds the lease, or its holder has not renewed it for the lease's duration."""
        if not spec.holder_identity:
            return True
        seen = (spec.holder_identity, spec.renew_time)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since >= (spec.lease_duration_seconds or 0)


class Tenure:
    """How long a holder may be sure of its lease. Pure; times are monotonic seconds.

    The server may have taken a write in the moment it was sent, however late its answer comes. Others wait for the
    lease's duration from when they see that write, hence never shorter than from when it was sent.

    Args:
        seconds: how long a write that was answered makes sure.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = -math.inf

    def written(self, sent: float) -> None:
        """Note that a write which was sent at `sent` has made or kept the lease ours."""
        self._until = max(self._until, sent + self._seconds)

    def left(self, now: float) -> float:
        """Seconds for which the lease is surely ours; 0 if it no longer is."""
        return max(0.0, self._until - now)

    def end(self) -> None:
        """Be sure of nothing any more."""
        self._until = -math.inf


class LeaderElector:
    """Runs something while it holds a Lease.

    Args:
        client: the cluster that has the Lease.
        name: the Lease's name.
        namespace: its namespace.
        identity: who we are; different for each process.
        lease_seconds: after which others may take over if we do not renew.
        renew_seconds: after which we stop leading if we could not renew, counted from when the last answered request
            was sent; less than `lease_seconds`. No request for the lease is waited for longer.
        retry_seconds: between two tries to renew or to get the lease.
        clock: monotonic seconds.
        ended: whether the process of an identity has certainly ended; its lease need not run out.

    Raises:
        ValueError: the times do not grow in this order.
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
        self._watchman = Watchman()
        self._tenure = Tenure(renew_seconds)
        self._held: Envelope | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the lease is ours, as far as we know."""
        return self._held is not None

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can hold the lease yet; to be asked before a write that only a leader may send."""
        return self._held is not None and self._tenure.left(self._clock()) > 0

    @property
    def term(self) -> str:
        """What tells this time of leading from all others, earlier ones of this process included; empty without."""
        if self._held is None:
            return ""
        return f"{decode(self._held.spec, LeaseSpec).lease_transitions or 0}.{self._held.uid}"

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while it is ours, and wait again when it was lost.

        Ends when `lead` ends of itself (its error is passed on) or on cancellation; gives the lease back then.
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
        """Run `lead` and renew beside it; True when it ended of itself, False when the lease was lost."""
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
            # Only when the work has stopped may the lease go to somebody else, so it is renewed until then.
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
                self._tenure.written(sent)
                if self._tenure.left(self._clock()) > 0:
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
        if spec.holder_identity == self._identity or self._watchman.expired(spec, self._clock()):
            return True
        if not self._ended(spec.holder_identity or ""):
            return False
        _log.info("lease.holder_has_ended", lease=self._name, holder=spec.holder_identity)
        return True

    async def _renew(self) -> None:
        """Renew until it has failed for too long or the lease is somebody else's."""
        while left := self._tenure.left(self._clock()):
            await asyncio.sleep(min(self._retry_seconds, left))
            sent = self._clock()
            try:
                async with asyncio.timeout(self._tenure.left(sent)):
                    if not await self._try_renew():
                        return
                self._tenure.written(sent)
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
            # Somebody touched it, or the answer to our last renewal was lost: look whose it is.
            current = await self._client.get(LEASES, self._name, self._namespace)
            if decode(current.spec, LeaseSpec).holder_identity != self._identity:
                return False
            self._held = await self._write(current, {"renewTime": _now()})
        return True

    async def _release(self) -> None:
        held, self._held = self._held, None
        self._tenure.end()
        if held is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._give_back(held)
        except (KubeError, TimeoutError) as error:
            _log.info("lease.not_released", lease=self._name, **describe(error))

    async def _give_back(self, held: Envelope) -> None:
        nobody: dict[str, object] = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _now()}
        try:
            await self._write(held, nobody)
        except Conflict:
            # A renewal that was cut short may have reached the server all the same.
            current = await self._client.get(LEASES, self._name, self._namespace)
            if decode(current.spec, LeaseSpec).holder_identity == self._identity:
                await self._write(current, nobody)

    async def _write(self, current: Envelope, spec: dict[str, object]) -> Envelope:
        patch = {"metadata": {"resourceVersion": current.resource_version}, "spec": spec}
        return await self._client.patch(LEASES, self._name, patch, self._namespace)

    def _spec(self, before: LeaseSpec | None) -> dict[str, object]:
        now = _now()
        # One more each time, also where it was ours before: each time of leading is a term of its own.
        transitions = 0 if before is None else (before.lease_transitions or 0) + 1
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(round(self._lease_seconds), 1),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _stop(task: "asyncio.Future[None]") -> None:
    """Cancel a task and wait for its end; its error, if any, is not lost when it had ended before."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("lease.stopped_with_error", **describe(error))
