"""The kind Lease: validation and columns. Pure.

Source: Kubernetes' `pkg/apis/coordination/validation`,
`pkg/registry/coordination/lease` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, one_of, part, say, text
from vcsync.apimachinery.wire import cells

_STRATEGY = "OldestEmulationVersion"


def _lease(found: Object) -> Findings:
    spec = part(found, "spec")
    duration, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield errors.wrong("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if moves is not None and moves < 0:
        yield errors.wrong("spec.leaseTransitions", moves, "must be greater than or equal to 0")
    if "strategy" in spec:
        yield from _lease_strategy("spec.strategy.strategy", text(spec, "strategy"))
    if text(spec, "preferredHolder") and not text(spec, "strategy"):
        yield errors.not_allowed("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _lease_prepare(new: Object, *_: object) -> None:
    spec = part(new, "spec")
    for key in ("strategy", "preferredHolder"):
        spec.pop(key, None)


def _lease_create(new: Object, _: Context) -> None:
    _lease_prepare(new)


def _lease_strategy(path: str, strategy: str) -> Findings:
    if "/" not in strategy:
        yield from one_of(path, strategy, (_STRATEGY,))
    else:
        yield from say(path, strategy, names.qualified_name(strategy))


KIND = Kind(
    group="coordination.k8s.io",
    kind="Lease",
    plural="leases",
    unconditional_update=False,
    create_on_update=True,
    prepare_create=_lease_create,
    prepare_update=_lease_prepare,
    validate=lambda found: list(_lease(found)),
    columns=cells.aged(Holder=cells.field("spec.holderIdentity")),
    any_finalizers=True,
)
