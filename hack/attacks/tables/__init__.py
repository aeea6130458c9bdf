"""Tables of attacks, by what they try; `TABLES` has them all."""

from collections.abc import Callable, Mapping, Sequence

from hack.attacks.case import Case
from hack.attacks.tables import (
    bodies,
    definitions,
    exhausting,
    history,
    malformed,
    names,
    selecting,
    signing,
    storing,
    wide,
)

TABLES: Mapping[str, Callable[[], Sequence[Case]]] = {
    "definitions": definitions.cases,
    "bodies": bodies.cases,
    "names": names.cases,
    "signing": signing.cases,
    "malformed": malformed.cases,
    "selectors": selecting.cases,
    "wide": wide.cases,
    "history": history.cases,
    "exhausting": exhausting.cases,
    "storing": storing.cases,
}
ALONE = frozenset({"storing"})
"""Of these each attack begins with a process of its own that keeps its data in a file; two on etcd have none."""
