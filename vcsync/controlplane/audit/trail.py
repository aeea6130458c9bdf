"""What one request tells the audit log on its way. Pure."""

from dataclasses import dataclass, field
from enum import IntEnum

MAX_ANNOTATIONS = 128
MAX_KEY = 1024
MAX_VALUE = 10 * 1024
"""Of annotations; longer ones are cut: a tenant's policies and webhooks write them."""
CUT = "...TRUNCATED"
"""What ends a text that was cut, as in kube-apiserver's user agents."""


class Level(IntEnum):
    """How much of a request is told."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


@dataclass(slots=True, eq=False)
class Trail:
    """What is gathered of one request; of `SILENT` nothing is.

    Attributes:
        level: how much is told.
        annotations: of the event, by key.
    """

    level: Level = Level.NONE
    annotations: dict[str, str] = field(default_factory=dict)

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the request's audit event, unless it has one of that key; free of charge if nothing is told.

        Source: apiserver's `audit.AddAuditAnnotation`.
        """
        if not self.level or key in self.annotations or len(self.annotations) >= MAX_ANNOTATIONS:
            return
        self.annotations[cut(key, MAX_KEY)] = cut(value, MAX_VALUE)


SILENT = Trail()
"""Of requests of which nothing is told."""


def cut(text: str, limit: int) -> str:
    """Return a text of so many characters at most, and a mark if more was there."""
    return text if len(text) <= limit else text[:limit] + CUT
