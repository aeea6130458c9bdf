"""Reset fields: fields that a write never owns, because the server restores them. Pure.

Each built-in kind declares them, as the strategies of kube-apiserver's registries do (`GetResetFields`).
"""

from dataclasses import dataclass

from vcsync.apimachinery.patch.fields import EMPTY, SELF, Set, single, union, without


@dataclass(frozen=True, slots=True)
class Reset:
    """The reset fields of a write.

    Attributes:
        gone: Paths that the server restores, with everything below them.
        only: If set, the only paths that can be owned, with everything below them. `*` matches any single element.
        every_version: Whether this also applies to managers of other versions than that of the request. For writes to a
            custom resource itself, only the version of the request counts.
    """

    gone: Set
    only: Set | None = None
    every_version: bool = True

    def kept(self, of: Set) -> Set:
        """Return the members of a set that can be owned."""
        if self.only is not None:
            return _within(of, self.only)
        return without(of, self.gone) if self.gone and of else of


def _within(of: Set, pattern: Set) -> Set:
    out: Set = {}
    for element, node in of.items():
        below = pattern.get(element, pattern.get("*"))
        if below is None or element == SELF:
            continue
        if not below or not node:
            out[element] = node
            continue
        inside = _within(node, below)
        if SELF in node:
            inside = {SELF: {}, **inside} if inside else {}
        if inside or SELF in node:
            out[element] = inside
    return out


def paths(*dotted: str) -> Set:
    """Return the set of fields at dotted paths. `*` matches any single element."""
    found: Set = {}
    for each in dotted:
        found = union(found, single(tuple(part if part == "*" else f"f:{part}" for part in each.split("."))))
    return found


NOTHING = Reset(EMPTY)
"""Every field can be owned."""

STATUS = Reset(paths("status"))
SPEC = Reset(paths("spec"))
SPEC_AND_METADATA = Reset(paths("spec", "metadata"))
_CUSTOM_STATUS = Reset(paths("status"), every_version=False)


def of_custom(has_status: bool, subresource: str = "") -> Reset:
    """Return the reset fields of a custom resource. `has_status`: whether its status subresource is enabled."""
    if subresource == "status":
        return SPEC_AND_METADATA
    return _CUSTOM_STATUS if has_status and not subresource else NOTHING
