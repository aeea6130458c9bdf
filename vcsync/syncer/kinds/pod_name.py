"""Keeps the name of a tenant's Pod while there may be a copy of it that the tenant's API server does not know of. Pure.

The Pod scheduler sets a finalizer in the write that gives a Pod of a fixed name its super cluster. So a Pod that is deleted
before it has a node remains, and no other Pod gets its name and runs elsewhere beside the copy. A node keeps a Pod by itself:
the finalizer is removed in the write of the status that follows the binding or comes with it.
"""

from __future__ import annotations

from typing import Any

from vcsync.api.names import COPY_FINALIZER
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.plan import Patch


def keeps_name(v: Envelope) -> bool:
    """Return whether a tenant's Pod keeps its name when it is deleted."""
    return COPY_FINALIZER in v.finalizers


def without(v: Envelope) -> dict[str, Any]:
    """Return the part of a merge patch of `metadata` that frees a Pod's name. It fails if the Pod has changed meanwhile."""
    return {
        "resourceVersion": v.resource_version,
        "finalizers": [each for each in v.finalizers if each != COPY_FINALIZER],
    }


def free_name(v: Envelope) -> Patch:
    """Return the patch that frees the name of a Pod without a copy. One that is being deleted and has no node ends with it."""
    body = {"metadata": {"uid": v.uid, **without(v)}}
    return Patch("tenant", PODS, v.namespace, v.name, v.uid, body, subresource="status")
