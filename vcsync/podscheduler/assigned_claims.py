"""Base of the caches of claims: which claims have no super cluster yet, and which have one by an unwritten decision. Pure."""

from collections.abc import Callable, Iterable

from vcsync.api.names import SUPER_CLUSTER
from vcsync.objects.envelope import Envelope


class AssignedClaims:
    """The claims of one kind of one tenant.

    Args:
        find: returns a claim in its slim form, by namespace and name.
        unread: returns why the claims are not known; empty if they are.
        holds: returns whether a super cluster may have objects of a namespace.
    """

    def __init__(
        self,
        find: Callable[[str, str], Envelope | None] = lambda _namespace, _name: None,
        unread: Callable[[], str] = lambda: "",
        holds: Callable[[str, str], bool] = lambda _namespace, _super_id: True,
    ) -> None:
        self._holds = holds
        self._find = find
        self._unread = unread
        # UID of a claim -> the super cluster of a decision that is being written, and how many Pods it is written for.
        self._assumed: dict[str, tuple[str, int]] = {}

    def unassigned(self, namespace: str, named: Iterable[str], super_id: str) -> list[Envelope]:
        """Return the claims that do not name a super cluster in their label yet.

        Args:
            namespace: the namespace of the claims.
            named: names of claims.
            super_id: the super cluster.
        """
        found = (self._find(namespace, name) for name in named)
        return [each for each in found if each is not None and each.labels.get(SUPER_CLUSTER) != super_id]

    def assume(self, claims: Iterable[Envelope], super_id: str) -> None:
        """Count claims on the super cluster of a new decision, before it is written."""
        for claim in claims:
            _, count = self._assumed.get(claim.uid, ("", 0))
            self._assumed[claim.uid] = (super_id, count + 1)

    def settle(self, claims: Iterable[Envelope]) -> None:
        """Count claims by their objects again, after a decision was written or failed."""
        for claim in claims:
            super_id, count = self._assumed.get(claim.uid, ("", 0))
            if count > 1:
                self._assumed[claim.uid] = (super_id, count - 1)
            else:
                self._assumed.pop(claim.uid, None)

    def _assumed_home(self, claim: Envelope) -> str:
        """Return the super cluster of a decision that is being written; empty if there is none."""
        return self._assumed.get(claim.uid, ("", 0))[0]
