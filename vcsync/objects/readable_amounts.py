"""Formats amounts of resources for people: cores with few digits, bytes in powers of 1024, plain counts. Pure."""

from vcsync.objects.quantity import InvalidQuantity, canonical, milli

_BYTES = frozenset({"memory", "storage", "ephemeral-storage", "object-bytes"})
_BYTES_PREFIX = "hugepages-"
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def readable(amount: str, resource: str) -> str:
    """Format a quantity briefly, and round it.

    Args:
        amount: The quantity. A text that is not a quantity is returned unchanged.
        resource: Name of the resource, such as `cpu` or `requests.memory`. It determines the units.
    """
    try:
        thousandths = milli(amount)
    except InvalidQuantity:
        return amount
    name = resource.removeprefix("requests.").removeprefix("limits.")
    if name == "cpu":
        return _cores(thousandths)
    if name in _BYTES or name.startswith(_BYTES_PREFIX):
        return _bytes(thousandths / 1000)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else canonical(thousandths)


def _cores(thousandths: int) -> str:
    if abs(thousandths) < 1000:
        return f"{thousandths}m" if thousandths else "0"
    digits = 1 if abs(thousandths) >= 100_000 else 3
    return f"{thousandths / 1000:.{digits}f}".rstrip("0").rstrip(".")


def _bytes(units: float) -> str:
    if abs(units) < 1024:
        return f"{units:g}"
    suffix = ""
    for suffix in _BINARY:  # noqa: B007 - the last value is used after the loop
        units /= 1024
        if round(abs(units)) < 1024:
            break
    return f"{units:.3g}{suffix}" if abs(units) < 1000 else f"{units:.0f}{suffix}"
