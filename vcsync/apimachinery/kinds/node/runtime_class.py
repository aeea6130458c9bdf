"""The kind RuntimeClass: validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/node/validation`, `pkg/registry/node/runtimeclass` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.common.node_labels import deprecated_label
from vcsync.apimachinery.kinds.core.pod_scheduling import tolerations
from vcsync.apimachinery.kinds.core.resources import requirements
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, items, labels, part, say, text
from vcsync.apimachinery.wire import cells


def _runtime(found: Object) -> Findings:
    handler = text(found, "handler")
    if not handler:
        yield errors.required("handler")
    else:
        yield from say("handler", handler, names.dns_label(handler))
    if "overhead" in found:
        yield from requirements("overhead", {"limits": part(found, "overhead", "podFixed")}, frozenset())
    scheduling = part(found, "scheduling")
    yield from labels("scheduling.nodeSelector", part(scheduling, "nodeSelector"))
    yield from tolerations("scheduling.tolerations", items(scheduling, "tolerations"))
    seen: set[tuple[str, ...]] = set()
    for index, each in enumerate(items(scheduling, "tolerations")):
        key = tuple(text(each, name) for name in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            shown_all = {**shown, "TolerationSeconds": each.get("tolerationSeconds")}
            yield errors.duplicate(f"scheduling.tolerations[{index}]", shown_all)
        seen.add(key)


def _runtime_warnings(new: Object, _: Object | None) -> list[str]:
    return [
        f"scheduling.nodeSelector: {message}"
        for key in part(new, "scheduling", "nodeSelector")
        if (message := deprecated_label(key))
    ]


KIND = Kind(
    group="node.k8s.io",
    kind="RuntimeClass",
    plural="runtimeclasses",
    unconditional_update=False,
    create_on_update=True,
    validate=lambda found: list(_runtime(found)),
    validate_update=lambda new, old: [
        *_runtime(new),
        *immutable("handler", text(new, "handler"), text(old, "handler")),
    ],
    warnings=_runtime_warnings,
    columns=cells.aged(Handler=cells.field("handler")),
    any_finalizers=True,
    repeats_finalizer_findings=True,
)
