"""Correlation of the parts of a new object with those of the old one. Pure.

Source: `CorrelatedObject` of k8s.io/apiserver `pkg/cel/common`: fields and values by key, items of `map` lists only.
"""

from typing import Any

from vcsync.apimachinery.structural.schema import Structural


def composite_key(keys: tuple[str, ...], item: Any) -> tuple[Any, ...] | None:
    """Return the values of a list-map item's keys, or None if one is missing or not a scalar."""
    if not isinstance(item, dict):
        return None
    found = []
    for name in keys:
        value = item.get(name)
        if not isinstance(value, str | int | float | bool):
            return None
        found.append((type(value), value))
    return tuple(found)


def keyed(node: Structural, items: Any) -> dict[tuple[Any, ...], Any]:
    """Return the items of a list of type map by key. The first of equal keys counts."""
    if node.list_type != "map" or not isinstance(items, list):
        return {}
    found: dict[tuple[Any, ...], Any] = {}
    for each in items:
        own = composite_key(node.map_keys, each)
        if own is not None:
            found.setdefault(own, each)
    return found


def identical(old: Any, new: Any) -> bool:
    """Return whether two JSON values are the same; true is not 1, and 1 is not 1.0."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(identical(value, new[name]) for name, value in old.items())
    if isinstance(old, list):
        return len(old) == len(new) and all(map(identical, old, new))
    return bool(old == new)


class Correlated:
    """A value of the new object with its old value. Results of comparisons are cached."""

    __slots__ = ("_children", "_equal", "_items", "new", "node", "old")

    def __init__(self, new: Any, old: Any, node: Structural) -> None:
        self.new = new
        self.old = old
        self.node = node
        self._children: dict[str | int, Correlated | None] = {}
        self._items: dict[tuple[Any, ...], Any] | None = None
        self._equal: bool | None = None

    def field(self, name: str) -> "Correlated | None":
        """Return the value of a field or key, or None if it has no old value."""
        if name not in self._children:
            self._children[name] = self._field(name)
        return self._children[name]

    def _field(self, name: str) -> "Correlated | None":
        if not isinstance(self.old, dict) or not isinstance(self.new, dict):
            return None
        if name not in self.old or name not in self.new:
            return None
        node = self.node.properties.get(name)
        if node is None:
            node = self.node.additional
        return None if node is None else Correlated(self.new[name], self.old[name], node)

    def item(self, at: int) -> "Correlated | None":
        """Return an item of a list of type map, or None if it has no old value."""
        if at not in self._children:
            self._children[at] = self._item(at)
        return self._children[at]

    def _item(self, at: int) -> "Correlated | None":
        if self.node.list_type != "map" or not isinstance(self.new, list) or self.node.items is None:
            return None
        if self._items is None:
            self._items = keyed(self.node, self.old)
        own = composite_key(self.node.map_keys, self.new[at])
        old = self._items.get(own) if own is not None else None
        return None if old is None else Correlated(self.new[at], old, self.node.items)

    def unchanged(self) -> bool:
        """Return whether the value is unchanged. The order of a list of type map does not matter."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        old, new = self.old, self.new
        if isinstance(new, dict) and isinstance(old, dict):
            return len(old) == len(new) and all(self._field_unchanged(name) for name in new)
        if isinstance(new, list) and isinstance(old, list) and self.node.list_type == "map":
            return len(old) == len(new) and all(self._item_unchanged(at) for at in range(len(new)))
        return identical(old, new)

    def _field_unchanged(self, name: str) -> bool:
        child = self.field(name)
        if child is not None:
            return child.unchanged()
        # Fields that the schema does not name have no counterpart, but may be unchanged.
        return name in self.old and identical(self.old[name], self.new[name])

    def _item_unchanged(self, at: int) -> bool:
        child = self.item(at)
        return identical(self.old[at], self.new[at]) if child is None else child.unchanged()
