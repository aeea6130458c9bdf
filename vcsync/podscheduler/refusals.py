"""Remembers which super clusters have refused which Pods of a tenant, and when each of them may be tried again. Pure.

A super cluster that has refused a Pod is tried again when something relevant has changed there since, at the earliest after a
backoff that doubles with each refusal. Not every change is visible, so it is also tried again after `FORGOTTEN_SECONDS`.
"""

from collections.abc import Collection

from msgspec import Struct

from vcsync.podscheduler.pods import Key, Pod

FIRST_BACKOFF_SECONDS = 60.0
"""Seconds after the first refusal in which the super cluster is not tried again."""
FORGOTTEN_SECONDS = 3600.0
"""Seconds after which a super cluster is tried again in any case, and the longest backoff."""


def backoff(returns: int) -> float:
    """Return the seconds in which a super cluster is not tried again that has given a Pod back this often before."""
    return min(FORGOTTEN_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(returns, 16))


class _Refusal(Struct):
    """One refusal, as it was first seen: its monotonic seconds, and whether something relevant has changed since."""

    since: float
    returns: int
    why: str
    changed: bool = False

    @property
    def until(self) -> float:
        return self.since + (backoff(self.returns) if self.changed else FORGOTTEN_SECONDS)


class Refusals:
    """The refusals that hold for the Pods of one tenant, by what super clusters say on the Pods."""

    def __init__(self) -> None:
        self._of: dict[
            Key, tuple[str, dict[str, _Refusal]]
        ] = {}  # Pod -> its UID, and super cluster -> refusal
        # Super cluster -> namespace -> the Pods that it has refused, if nothing has changed there since.
        self._unchanged: dict[str, dict[str, dict[Key, None]]] = {}

    def note(self, pod: Pod, now: float, granted: Collection[str]) -> None:
        """Note what is said on a Pod. A refusal counts from when it is first seen until the Pod is assigned there again.

        Args:
            pod: the Pod.
            now: monotonic seconds.
            granted: super clusters with slices of its namespace. Others do not matter, and a tenant can write any name.
        """
        if not pod.said and pod.key not in self._of:
            return
        said = {
            each: found
            for each, found in pod.said.items()
            if found.refuses and each in granted and not pod.needs.node
        }
        uid, known = self._of.get(pod.key, (pod.uid, {}))
        kept = known if uid == pod.uid else {}
        for super_id in known.keys() - said.keys():
            self._unlink(super_id, pod.key)
        if not said:
            self._of.pop(pod.key, None)
            return
        found = {}
        for super_id, each in said.items():
            found[super_id] = refusal = kept.get(super_id) or _Refusal(now, each.returns, each.why)
            if not refusal.changed:
                spaces = self._unchanged.setdefault(super_id, {})
                spaces.setdefault(pod.namespace, {})[pod.key] = None
        self._of[pod.key] = (pod.uid, found)

    def forget(self, key: Key) -> None:
        """Forget a Pod that is gone."""
        for super_id in self._of.pop(key, ("", {}))[1]:
            self._unlink(super_id, key)

    def changed(self, super_id: str, namespace: str | None = None) -> list[Key]:
        """Note that something relevant has changed in a super cluster, for one namespace or all.

        Returns:
            The Pods that it has refused and that may be tried there again after `until`.
        """
        spaces = self._unchanged.get(super_id, {})
        found: list[Key] = []
        for each in list(spaces) if namespace is None else (namespace,):
            found += spaces.pop(each, ())
        for key in found:
            self._of[key][1][super_id].changed = True
        if not spaces:
            self._unchanged.pop(super_id, None)
        return found

    def holding(self, key: Key, now: float) -> dict[str, str]:
        """Return why super clusters are not tried for a Pod at present: super cluster -> reason."""
        return {
            super_id: f"refused the Pod: {each.why}"
            for super_id, each in self._of.get(key, ("", {}))[1].items()
            if now < each.until
        }

    def until(self, key: Key, super_id: str, now: float) -> float:
        """Return the seconds for which one refusal of a Pod still holds; 0 if it does not."""
        found = self._of.get(key, ("", {}))[1].get(super_id)
        return 0.0 if found is None else max(0.0, found.until - now)

    def next_end(self, key: Key, now: float, *, without: str) -> float | None:
        """Return the seconds until the next refusal of a Pod ends; None if none holds.

        Args:
            key: the Pod.
            now: monotonic seconds.
            without: id of a super cluster that does not count.
        """
        holding = (each for each in self.holding(key, now) if each != without)
        return min((self.until(key, each, now) for each in holding), default=None)

    def __len__(self) -> int:
        return len(self._of)

    def _unlink(self, super_id: str, key: Key) -> None:
        spaces = self._unchanged.get(super_id, {})
        keys = spaces.get(key[0], {})
        keys.pop(key, None)
        if not keys:
            spaces.pop(key[0], None)
        if not spaces:
            self._unchanged.pop(super_id, None)
