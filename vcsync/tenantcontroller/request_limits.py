"""Limits of requests of a Tenant, as its spec, its status and the record of its control plane have them. Pure."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api.objects import to_wire
from vcsync.api.specs import TenantLimits
from vcsync.objects.quantity import milli

BYTES: Final = "bytesPerSecond"
MOST: Final = 10**15
"""Largest number in a record."""


class Door(Struct, frozen=True):
    """The limits of a tenant's requests where an embedded control plane serves or forwards them.

    Attributes:
        limits: those of its record there; None: the defaults.
        in_force: those in force; None: there are none.
        weight: its share of the API server there.
        reached: the limits that refused requests recently, as `HOLDER/LIMIT`.
    """

    limits: dict[str, Any] | None = None
    in_force: dict[str, Any] | None = None
    weight: int = 1
    reached: tuple[str, ...] = ()


def wanted(limits: TenantLimits | None) -> dict[str, Any] | None:
    """Return the limits that a record is to have, or None if the defaults of the control plane apply.

    Raises:
        InvalidQuantity: The number of bytes is not a quantity.
    """
    fields: dict[str, Any] = to_wire(limits) if limits is not None else {}
    user = _record(fields.pop("user", None) or {}, "spec.limits.user")
    return {**_record(fields, "spec.limits"), **({"user": user} if user else {})} or None


def shown(in_force: dict[str, Any] | None) -> TenantLimits | None:
    """Return the limits in force that a control plane reports, for the status."""
    if not in_force:
        return None
    user = in_force.get("user")
    found = {**_status(in_force), **({"user": _status(user)} if user else {})}
    return msgspec.convert(found, TenantLimits, dec_hook=_quantity)


def _record(fields: dict[str, Any], where: str) -> dict[str, Any]:
    found = {name: value for name, value in fields.items() if value is not None}
    if BYTES in found:
        thousandths = milli(str(found[BYTES]), field=f"{where}.{BYTES}")
        found[BYTES] = min(MOST, -(-thousandths // 1000))
    return found


def _status(fields: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in fields.items() if name != "user"}
    return {**found, BYTES: str(found[BYTES])} if BYTES in found else found


def _quantity(kind: type, value: Any) -> Any:
    return kind.parse(value)  # type: ignore[attr-defined]


def within(door: Door) -> tuple[bool, str, str]:
    """Return whether no limit was reached recently, with the reason and message of a condition."""
    if not door.reached:
        return True, "WithinLimits", "no limit of requests was reached in the last ten minutes"
    reached = ", ".join(door.reached)
    message = (
        f"requests were refused in the last ten minutes by limits of requests: {reached}; see spec.limits"
    )
    return False, "LimitsReached", message
