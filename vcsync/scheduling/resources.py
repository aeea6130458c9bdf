"""Amounts of resources as exact integers in thousandths of their unit (milli-CPU, milli-bytes)."""

from collections.abc import Mapping

from vcsync.objects.quantity import milli

Resources = dict[str, int]
"""Resource name -> thousandths of its unit. An amount that is missing is unknown or not limited."""

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_COUNTED_IN_BYTES = ("memory", "storage", "hugepages-")


def from_quantities(quantities: Mapping[str, str]) -> Resources:
    """Parse a map of Kubernetes quantities.

    Raises:
        InvalidQuantity: a text is not a quantity.
    """
    return {name: milli(text) for name, text in quantities.items()}


def to_quantities(resources: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes quantities, in order of their names."""
    return {name: show(name, resources[name]) for name in sorted(resources)}


def add(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    """Return the sum of two amounts, over the names of both."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def subtract(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    """Return `left` minus `right`, over the names of `left`; negative where `right` is more."""
    return {name: amount - right.get(name, 0) for name, amount in left.items()}


def times(resources: Mapping[str, int], factor: int) -> Resources:
    """Return each amount multiplied by `factor`."""
    return {name: amount * factor for name, amount in resources.items()}


def pieces(free: Mapping[str, int], size: Mapping[str, int]) -> int:
    """Return how many pieces of `size` (positive amounts) fit into `free`. A name that `free` lacks counts as 0."""
    return max(0, min([free.get(name, 0) // amount for name, amount in size.items()]))


def show(name: str, amount: int) -> str:
    """Return an amount as a Kubernetes quantity for people: `150m`, `2`, `100Mi`."""
    units, thousandths = divmod(amount, 1000)
    if thousandths:
        return f"{amount}m"
    if units and not name.startswith("count/") and any(part in name for part in _COUNTED_IN_BYTES):
        for suffix, factor in _BINARY:
            if units % factor == 0:
                return f"{units // factor}{suffix}"
    return str(units)


def shortages(asked: Mapping[str, int], free: Mapping[str, int], total: Mapping[str, int]) -> list[str]:
    """Return a phrase for each resource of `free` that has too little for `asked`.

    Example: `cpu 150m asked, 100m of 100m free`.

    Args:
        asked: requested amounts.
        free: free amounts; only their names are checked.
        total: all amounts, free or not, for the text.
    """
    return [
        f"{name} {show(name, asked[name])} asked, "
        f"{show(name, max(0, free[name]))} of {show(name, total.get(name, 0))} free"
        for name in sorted(asked)
        if asked[name] and name in free and asked[name] > free[name]
    ]
