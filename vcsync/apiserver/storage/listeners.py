"""Passes changes to listeners. An error over one change does not affect other changes or listeners."""

from collections.abc import Callable, Sequence

from vcsync.apiserver.storage.interface import Change

Listener = Callable[[Sequence[Change]], None]
"""Receives changes in order. It must tolerate repetitions: a batch that failed is repeated one by one."""
Failed = Callable[[Change, Exception], None]
"""Called with a change on which a listener failed."""


def notify(listeners: Sequence[Listener], changes: Sequence[Change], failed: Failed) -> None:
    """Pass every change to every listener.

    Args:
        listeners: The listeners, in order.
        changes: Changes of the store, in order.
        failed: Called for each change on which a listener failed.
    """
    for listener in listeners:
        try:
            listener(changes)
        except Exception:  # noqa: BLE001 - the repetition finds the change that caused it
            _notify_one_by_one(listener, changes, failed)


def _notify_one_by_one(listener: Listener, changes: Sequence[Change], failed: Failed) -> None:
    for change in changes:
        try:
            listener((change,))
        except Exception as error:  # noqa: BLE001 - an error over one change must not affect other changes
            failed(change, error)
