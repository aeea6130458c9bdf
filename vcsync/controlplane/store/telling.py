"""Tells listeners of changes; an error over one change keeps no other change from anybody."""

from collections.abc import Callable, Sequence

from vcsync.controlplane.store.interface import Change

Listener = Callable[[Sequence[Change]], None]
"""Takes changes in order. It must be able to take one twice: a batch that failed is told again, one by one."""
Failed = Callable[[Change, Exception], None]
"""Is told of a change that a listener could not take."""


def tell(listeners: Sequence[Listener], changes: Sequence[Change], failed: Failed) -> None:
    """Tell every listener of every change.

    Args:
        listeners: who is told, in order.
        changes: of the store, in order.
        failed: is told of each change that some listener could not take, once.
    """
    for listener in listeners:
        try:
            listener(changes)
        except Exception:  # noqa: BLE001 - found out below which change it was
            _one_by_one(listener, changes, failed)


def _one_by_one(listener: Listener, changes: Sequence[Change], failed: Failed) -> None:
    for change in changes:
        try:
            listener((change,))
        except Exception as error:  # noqa: BLE001 - a defect over one change must not keep others from the listener
            failed(change, error)
