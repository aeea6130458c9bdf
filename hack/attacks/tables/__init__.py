"""Tables of attacks by target; `TABLES` contains all of them."""

from collections.abc import Callable, Mapping, Sequence

from hack.attacks.case import Case
from hack.attacks.tables import (
    answering,
    bodies,
    costly,
    definitions,
    exhausting,
    forwarded,
    history,
    hosts,
    malformed,
    names,
    networks,
    policies,
    prohibited,
    selecting,
    signing,
    storing,
    wide,
)

TABLES: Mapping[str, Callable[[], Sequence[Case]]] = {
    "definitions": definitions.cases,
    "bodies": bodies.cases,
    "names": names.cases,
    "networks": networks.cases,
    "policies": policies.cases,
    "signing": signing.cases,
    "malformed": malformed.cases,
    "selectors": selecting.cases,
    "wide": wide.cases,
    "history": history.cases,
    "exhausting": exhausting.cases,
    "costly": costly.cases,
    "prohibited": prohibited.cases,
    "forwarded": forwarded.cases,
    "answering": answering.cases,
    "storing": storing.cases,
    "hosts": hosts.cases,
}
ALONE = frozenset({"storing"})
"""Tables whose attacks each start a process with a file as store; they do not apply to two processes on etcd."""
