"""The columns that workloads share. Pure.

Source: Kubernetes' `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery.wire import cells


def ready(obj: cells.Object, _: datetime) -> str:
    """Return ready and desired replicas as `ready/desired`."""
    return f"{cells.look(obj, 'status.readyReplicas', 0)}/{cells.look(obj, 'spec.replicas', 0)}"


REPLICA_COLUMNS: cells.Printer = {
    "Name": cells.name,
    "Desired": cells.field("spec.replicas", 0),
    "Current": cells.field("status.replicas", 0),
    "Ready": cells.field("status.readyReplicas", 0),
    "Age": cells.age,
    **cells.containers_of("spec.template"),
}
