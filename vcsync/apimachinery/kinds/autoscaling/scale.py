"""The kind Scale, the subresource of kinds with replicas: columns. Pure.

Source: Kubernetes' `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.wire import cells

KIND = Kind(
    group="autoscaling",
    kind="Scale",
    plural="scales",
    columns={
        "Name": cells.name,
        "Desired": cells.field("spec.replicas", 0),
        "Available": cells.field("status.replicas", 0),
        "Age": cells.age,
    },
)
