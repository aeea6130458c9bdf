"""The kind ComponentStatus: columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`,
`pkg/registry/core/componentstatus` and `pkg/printers/internalversion`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.wire import cells


def healthy(obj: cells.Object, _: datetime) -> str:
    """Return whether a component is healthy."""
    found = next((each for each in cells.look(obj, "conditions", ()) if each.get("type") == "Healthy"), None)
    if found is None:
        return "Unknown"
    return "Healthy" if found.get("status") == "True" else "Unhealthy"


def component(key: str) -> cells.Cell:
    """Return the cell of a member of a component's condition."""

    def cell(obj: cells.Object, _: datetime) -> Any:
        found = [each for each in cells.look(obj, "conditions", ()) if each.get("type") == "Healthy"]
        return found[0].get(key, "") if found else ""

    return cell


KIND = Kind(
    group="",
    kind="ComponentStatus",
    plural="componentstatuses",
    columns={
        "Name": cells.name,
        "Status": healthy,
        "Message": component("message"),
        "Error": component("error"),
    },
)
