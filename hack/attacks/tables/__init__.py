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
}
