"""Reports that processes over one store exchange about recently refused requests. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

REPORTED = 200
"""Most tenants in the report of one process."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """The report of one process, which is the value of its entry in the store.

    Attributes:
        refused: By tenant, the limits that refused requests recently, as `HOLDER/LIMIT`.
    """

    refused: dict[str, tuple[str, ...]] = {}


_decoder = msgspec.json.Decoder(Report)


def encode(refused: Mapping[str, Sequence[str]]) -> bytes:
    """Return the report of a process with the first of the tenants."""
    chosen = sorted(refused)[:REPORTED]
    return msgspec.json.encode(Report({tenant: tuple(refused[tenant]) for tenant in chosen}))


class Reports:
    """The last report of each process."""

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def learn(self, process: str, value: bytes) -> None:
        """Record a report. One that another version wrote in another form is empty."""
        try:
            self._reports[process] = _decoder.decode(value)
        except msgspec.MsgspecError:
            self._reports[process] = Report()

    def keep(self, processes: Collection[str]) -> None:
        """Forget the reports of all other processes."""
        self._reports = {name: each for name, each in self._reports.items() if name in processes}

    def refused(self, tenant: str) -> list[str]:
        """Return the limits that refused requests of a tenant recently, in any process."""
        return sorted({each for report in self._reports.values() for each in report.refused.get(tenant, ())})
