"""Shows in the status of each TenantPolicy how many tenants it selects, and whether it is in force.

Several processes may run this at once: they write by compare and swap, and all compute the same status.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from vcsync.api.conditions import set_condition
from vcsync.api.policy_specs import TenantPolicyStatus
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.tenant_policies.compiled import TenantPolicy
from vcsync.apiserver.admission.tenant_policies.following import FOLLOWED, POLICIES, Snapshot, TenantPolicies
from vcsync.apiserver.storage.interface import Change, Compare, Put, Record, Store, StoreError

ACCEPTED: Final = "Accepted"
SETTLE_SECONDS = 0.5
"""Time for which changes are collected."""
RETRY_SECONDS = 10.0
"""Time until the next attempt after the store failed."""
_log = structlog.get_logger(__name__)


class TenantPolicyStatuses:
    """Keeps the status of all policies.

    Args:
        store: The store.
        policies: The policies.
        now: Returns the time in RFC 3339.
    """

    def __init__(self, store: Store, policies: TenantPolicies, now: Callable[[], str]) -> None:
        self._store = store
        self._policies = policies
        self._now = now
        self._wake = asyncio.Event()
        self._wake.set()

    def changed(self, changes: Sequence[Change]) -> None:
        """Take changes of the store. It must come after `TenantPolicies.changed`."""
        if not self._wake.is_set() and any(each.key.startswith(FOLLOWED) for each in changes):
            self._wake.set()

    async def run(self) -> None:
        """Write the status of policies until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            if self._policies.idle:
                continue
            try:
                await self.write()
            except StoreError as error:
                _log.warning("the status of TenantPolicies cannot be written", error=str(error))
                self._wake.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def write(self) -> None:
        """Write what has changed. A write that another one precedes is repeated after the change arrives.

        Raises:
            StoreError: The store cannot be read or written.
        """
        snapshot = await self._policies.load()
        for policy in snapshot.policies:
            record, _ = await self._store.get(POLICIES + policy.name)
            value = None if record is None else self._shown(record, policy, snapshot)
            if record is not None and value is not None:
                await self._store.txn([Compare(record.key, record.revision)], [Put(record.key, value)])

    def _shown(self, record: Record, policy: TenantPolicy, snapshot: Snapshot) -> bytes | None:
        """Return the stored form of a policy with its status, or None if that does not change."""
        obj: Object = msgspec.json.decode(record.value)
        try:
            before = msgspec.convert(obj.get("status") or {}, TenantPolicyStatus)
        except msgspec.ValidationError:
            before = TenantPolicyStatus()
        after = status_of(
            policy, snapshot.count(policy), before, obj["metadata"].get("generation", 0), self._now()
        )
        if after == before:
            return None
        return msgspec.json.encode({**obj, "status": msgspec.to_builtins(after)})


def status_of(
    policy: TenantPolicy, tenants: int, before: TenantPolicyStatus, generation: int, now: str
) -> TenantPolicyStatus:
    """Return the status of a policy. Pure.

    Args:
        policy: The policy.
        tenants: Number of tenants that it selects.
        before: Its present status.
        generation: Its `metadata.generation`.
        now: Current time in RFC 3339.
    """
    if policy.broken:
        reason = "Broken"
        message = f"nothing is written in the selected tenants until the policy is corrected: {policy.broken}"
    else:
        reason, message = "Enforced", "the policy holds in all selected tenants"
    conditions = set_condition(
        before.conditions,
        ACCEPTED,
        status=not policy.broken,
        reason=reason,
        message=message,
        now=now,
        observed_generation=generation,
    )
    return TenantPolicyStatus(observed_generation=generation, selected_tenants=tenants, conditions=conditions)
