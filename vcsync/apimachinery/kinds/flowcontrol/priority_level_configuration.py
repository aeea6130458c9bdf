"""The kind PriorityLevelConfiguration: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/flowcontrol/validation`,
`pkg/registry/flowcontrol/prioritylevelconfiguration` and `pkg/printers/internalversion`.
"""

import math

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.flowcontrol.status import validate_status
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.validation.fields import Findings, Object, choice, number, part, text
from vcsync.apimachinery.wire import cells

_HASH_BITS = 60


def _level_default(found: Object) -> None:
    spec = part(found, "spec")
    for key, shares in (("exempt", 0), ("limited", 30)):
        if isinstance(spec.get(key), dict):
            fill(spec[key], {"nominalConcurrencyShares": shares, "lendablePercent": 0})
    queuing = part(spec, "limited", "limitResponse", "queuing")
    for key, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
        if "queuing" in part(spec, "limited", "limitResponse") and not queuing.get(key):
            queuing[key] = value


def _level(found: Object) -> Findings:
    spec, name = part(found, "spec"), text(part(found, "metadata"), "name")
    kind = text(spec, "type")
    if (name == "exempt") != (kind == "Exempt"):
        yield errors.wrong("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if "limited" in spec:
            yield errors.not_allowed("spec.limited", "must be nil if the type is not Limited")
        if "exempt" in spec:
            yield from _shares("spec.exempt", spec["exempt"])
    elif kind == "Limited":
        if "exempt" in spec:
            yield errors.not_allowed("spec.exempt", "must be nil if the type is Limited")
        if "limited" not in spec:
            yield errors.required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited("spec.limited", spec["limited"])
    else:
        yield from choice("spec.type", kind, ("Exempt", "Limited"))


def _shares(path: str, found: Object) -> Findings:
    if number(found, "nominalConcurrencyShares") < 0:
        value = number(found, "nominalConcurrencyShares")
        yield errors.wrong(f"{path}.nominalConcurrencyShares", value, "must be a non-negative integer")
    yield from _lendable(path, found)


def _lendable(path: str, found: Object) -> Findings:
    share = number(found, "lendablePercent")
    if not 0 <= share <= 100:
        yield errors.wrong(f"{path}.lendablePercent", share, "must be between 0 and 100, inclusive")


def _limited(path: str, found: Object) -> Findings:
    if number(found, "nominalConcurrencyShares") < 0:
        value = number(found, "nominalConcurrencyShares")
        yield errors.wrong(f"{path}.nominalConcurrencyShares", value, "must be a non-negative integer")
    yield from _response(f"{path}.limitResponse", part(found, "limitResponse"))
    yield from _lendable(path, found)
    limit = found.get("borrowingLimitPercent")
    if limit is not None and limit < 0:
        yield errors.wrong(
            f"{path}.borrowingLimitPercent", limit, "if specified, must be a non-negative integer"
        )


def _response(path: str, found: Object) -> Findings:
    kind, queuing = text(found, "type"), found.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            yield errors.not_allowed(
                f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited"
            )
    elif kind == "Queue":
        if queuing is None:
            message = "must not be empty if limited.limitResponse.type is Limited"
            yield errors.required(f"{path}.queuing", message)
        else:
            yield from _queuing(f"{path}.queuing", queuing)
    else:
        yield from choice(f"{path}.type", kind, ("Queue", "Reject"))


def _queuing(path: str, found: Object) -> Findings:
    length, queues, hand = (number(found, key) for key in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield errors.wrong(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield errors.wrong(f"{path}.queues", queues, "must be positive")
    elif queues > 10_000_000:
        yield errors.wrong(f"{path}.queues", queues, "must not be greater than 10000000")
    if hand <= 0:
        yield errors.wrong(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield errors.wrong(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        message = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        yield errors.wrong(f"{path}.handSize", hand, message)


_LIMITED = "spec.limited.limitResponse.queuing"


KIND = Kind(
    group="flowcontrol.apiserver.k8s.io",
    kind="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    generation=("spec",),
    status=True,
    default=_level_default,
    validate=lambda found: list(_level(found)),
    status_validate=validate_status,
    columns={
        "Name": cells.name,
        "Type": cells.field("spec.type"),
        "NominalConcurrencyShares": cells.field("spec.limited.nominalConcurrencyShares", cells.NONE),
        "Queues": cells.field(f"{_LIMITED}.queues", cells.NONE),
        "HandSize": cells.field(f"{_LIMITED}.handSize", cells.NONE),
        "QueueLengthLimit": cells.field(f"{_LIMITED}.queueLengthLimit", cells.NONE),
        "Age": cells.age,
    },
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
    repeats_metadata_findings=False,
)
