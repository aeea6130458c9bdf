"""Endpoints that a tenant writes for Services without selector. Controllers of each cluster write all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vcsync.api import names
from vcsync.kube.resources import ENDPOINTS, SERVICES
from vcsync.objects.envelope import Envelope, encode, untyped
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Create,
    Kind,
    Parts,
    Plan,
    Related,
    TenantContext,
    View,
)
from vcsync.syncer.kinds.service import Backing, backing, is_api_service

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_CONTROLLER: Final = "endpoint-controller"
"""Value of the label on Endpoints that a control plane's own controller has written."""


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep the super Endpoints' subsets equal to the tenant's, unless a controller writes them.

    An address's targetRef and nodeName refer to the tenant's objects and are not copied down.
    """
    if v is None:
        return EMPTY if p is None else metadata.orphan(ENDPOINTS, p, p.name, context, view)
    if is_api_service(v.namespace, v.name):
        return EMPTY
    if _written_by_controller(v, context, view):
        return Plan(metadata.without_copy(ENDPOINTS, v, p, context))
    if _ends_with_its_service(v, view):
        return EMPTY
    subsets = _subsets(v)
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        body: dict[str, Any] = {
            "apiVersion": ENDPOINTS.api_version,
            "kind": ENDPOINTS.kind,
            "metadata": metadata.super_metadata(ENDPOINTS, v, context),
            "subsets": subsets,
        }
        return Plan((Create("super", ENDPOINTS, body["metadata"]["namespace"], body),))
    # When a Service loses its selector, the Endpoints of the super cluster's controller remain. They are adopted.
    left_behind = view.super(SERVICES, p.namespace, p.name) is not None
    adopt = view if left_behind else None
    unsettled = metadata.settle_identity(ENDPOINTS, v, p, context, adopt=adopt)
    if unsettled is not None:
        return unsettled
    changes = metadata.metadata_patch(ENDPOINTS, v, p, context)
    same = v.rest == p.rest or _addresses(subsets) == _addresses(_subsets(p))
    return Plan(metadata.super_patch(ENDPOINTS, p, changes, {} if same else {"subsets": subsets or None}))


def _written_by_controller(v: Envelope, context: TenantContext, view: View) -> bool:
    """Return whether the Service has a selector, in the tenant or still in the super cluster.

    The policy may keep a Service there from losing its selector; then the tenant's addresses must not be there either.
    """
    placement = view.placement(v.namespace)
    if placement is not None and placement.name_server_only:
        return False  # the Pods are in other super clusters: no controller here could find them
    return backing(v.namespace, v.name, context, view) is Backing.PODS


def _ends_with_its_service(v: Envelope, view: View) -> bool:
    """Return whether the tenant's controller wrote the Endpoints of a Service that is gone, and is about to delete them.

    The same happens in the super cluster.
    """
    written = v.labels.get(_MANAGED_BY) == _CONTROLLER
    return written and view.tenant(SERVICES, v.namespace, v.name) is None


def _subsets(envelope: Envelope) -> list[dict[str, Any]]:
    subsets: list[dict[str, Any]] = untyped(envelope.rest).get("subsets") or []
    for subset in subsets:
        for field in ("addresses", "notReadyAddresses"):
            for address in subset.get(field) or ():
                address.pop("targetRef", None)
                address.pop("nodeName", None)
    return subsets


def _addresses(subsets: list[dict[str, Any]]) -> frozenset[tuple[str, bytes, bytes]]:
    """Return all (field, address, port) of subsets, since an API server may group them in another way."""
    return frozenset(_expand(subsets))


def _expand(subsets: list[dict[str, Any]]) -> Iterator[tuple[str, bytes, bytes]]:
    for subset in subsets:
        ports = [encode(sorted({"protocol": "TCP", **port}.items())) for port in subset.get("ports") or ()]
        for field in ("addresses", "notReadyAddresses"):
            for address in subset.get(field) or ():
                encoded = encode(sorted(address.items()))
                for port in ports or (b"",):
                    yield field, encoded, port


def _same_key(service: Envelope) -> tuple[str, str]:
    return service.key


def _key_of_copy(service: Envelope) -> tuple[str, str]:
    return service.annotations.get(names.NAMESPACE, ""), service.name


ENDPOINTS_KIND = Kind(
    name="endpoints",
    resource=ENDPOINTS,
    plan=plan,
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
    related=(Related("tenant", SERVICES, _same_key), Related("super", SERVICES, _key_of_copy)),
)
"""Endpoints without a controller."""
