"""Redacts Events about volumes for tenants: drivers and provisioners name servers, volumes and nodes in them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, VOLUME_SNAPSHOTS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.patterns.linear import linear

_VOLUME: Final = linear(r'volume "([^"]*)"')
_CLAIMS: Final = (b'"persistentVolumeClaim"', b'"ephemeral"')
_REPORTER: Final = "vcsync-syncer"
_HIDDEN: Final = "the cluster that your Pods run on reports this about the volume of a claim; its operator can read the details"
_REDACTED: Final = {
    PERSISTENT_VOLUME_CLAIMS.kind: _HIDDEN,
    VOLUME_SNAPSHOTS.kind: "the cluster that has the volume reports this about its snapshot; its operator can read the details",
}
"""Kind -> the message of its Events in tenants."""


class _Volume(Struct, frozen=True, gc=False):
    name: str = ""


class _PodSpec(Struct, frozen=True, gc=False):
    volumes: tuple[_Volume, ...] = ()


def is_internal(kind: str, event: Envelope) -> bool:
    """Return whether an Event concerns the operator only: normal steps of the super cluster's provisioner and snapshotter.

    Args:
        kind: kind of the object that the Event is about.
        event: the super cluster's Event.
    """
    if kind not in _REDACTED:
        return False
    return bool(untyped(event.rest).get("type") != "Warning")


def redact(kind: str, v: Envelope, translated: dict[str, Any]) -> None:
    """Replace the message of an Event if it may contain details of a volume. `translated` is changed.

    Of an Event about a claim or a snapshot only type, reason, count and times remain. An Event about a Pod keeps its message
    if it names only volumes by their names in the Pod.

    Args:
        kind: kind of the object that the Event is about.
        v: the tenant's object.
        translated: fields of the tenant's Event.
    """
    if kind in _REDACTED:
        translated["message"] = _REDACTED[kind]
        translated["source"] = {"component": _REPORTER}
        for field in ("reportingComponent", "reportingInstance"):
            if field in translated:
                translated[field] = _REPORTER
    elif kind == PODS.kind and any(each in v.spec for each in _CLAIMS):
        own = {volume.name for volume in decode(v.spec, _PodSpec).volumes}
        if not own.issuperset(match[1] for match in _VOLUME.finditer(translated["message"])):
            translated["message"] = _HIDDEN
