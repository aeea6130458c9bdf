"""EndpointSlices in their three forms: of a super cluster's controller, shared in the meta cluster, remote in others. Pure.

The endpointslice controller of a super cluster writes slices of the Pods that run there. Its syncer shares each of them, as one
object of the meta cluster. The syncers of other super clusters of the network write each shared slice into theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from vcsync.api import names
from vcsync.api.rbac import PROJECT
from vcsync.kube.resources import ENDPOINT_SLICES, SERVICES
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME
from vcsync.syncer.kinds.service import HEADLESS, is_external

CONTROLLER: Final = "endpointslice-controller.k8s.io"
"""Writer of the slices of a super cluster's own Pods. Tenants cannot write slices with this label there."""
SELECTOR: Final = f"{names.CONTROLLED}={names.TRUE},{MANAGED_BY} in ({CONTROLLER},{names.REMOTE_ENDPOINTS})"
"""Selects the slices of tenants' Services in a super cluster: of its controller, and of other super clusters."""
MOST_SLICES: Final = 100
"""Slices of one namespace that a super cluster shares. Upstream's controller puts 100 endpoints into each by default."""
PROXY_NAME: Final = "service.kubernetes.io/service-proxy-name"
"""Label by which kube-proxy leaves a slice alone: those in the meta cluster are not for its nodes."""
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"
"""Label of the slices of headless Services, as upstream's controller sets it."""

_CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
"""Values of `trafficDistribution` for which upstream's controller writes hints."""
_SHARED: Final = ("addresses", "conditions", "hostname", "zone")
"""Fields of an endpoint that have a meaning in other super clusters. Names of Pods and nodes have none."""
_CONTENT: Final = ("addressType", "endpoints", "ports")

Body = dict[str, Any]


class Name(Struct, frozen=True):
    """The parts of a shared slice's name. None of them contains a dot."""

    slice: str
    place: str
    """The super namespace, which is the same in every super cluster."""
    super_id: str

    def __str__(self) -> str:
        return f"{self.slice}.{self.place}.{self.super_id}"


class Owner(Struct, frozen=True):
    """The tenant's namespace to which a super namespace belongs."""

    tenant: str
    """Cluster key."""
    namespace: str


class Write(Struct, frozen=True):
    """One request that brings the slices of a namespace closer to what they should be."""

    verb: Literal["create", "patch", "delete"]
    name: str
    body: Body = {}
    """The object to create, or the merge patch."""
    uid: str = ""
    """UID of the object to patch or delete."""


class _ServiceSpec(Struct, rename="camel"):
    cluster_ip: str = field(default="", name="clusterIP")
    traffic_distribution: str | None = None


def read_name(text: str) -> Name | None:
    """Return the parts of a shared slice's name; None if it is none."""
    parts = text.split(".")
    return Name(*parts) if len(parts) == 3 and all(parts) else None


def selects_pods(service: Envelope | None, owner: Owner) -> bool:
    """Return whether a super cluster's Service is the copy of a tenant's Service with a selector."""
    return (
        service is not None
        and not service.deleting
        and service.annotations.get(names.CLUSTER) == owner.tenant
        and service.annotations.get(names.NAMESPACE) == owner.namespace
        and not is_external(untyped(service.spec))
    )


def service_of(found: Envelope) -> str:
    """Return the name of the Service of a slice, shared or not; "" if it has none."""
    return found.labels.get(names.SERVICE) or found.labels.get(SERVICE_NAME, "")


def has_endpoints(found: Envelope) -> bool:
    """Return whether a slice has endpoints. The controller keeps an empty one for a Service without Pods."""
    return bool(untyped(found.rest).get("endpoints"))


def shared(found: Envelope, owner: Owner, super_id: str, network_id: str) -> Body:
    """Return the shared form of a slice.

    Args:
        found: The slice of the super cluster's own controller.
        owner: The tenant's namespace.
        super_id: The super cluster.
        network_id: Its network.
    """
    content: Body = untyped(found.rest)
    return {
        "metadata": {
            "name": str(Name(found.name, found.namespace, super_id)),
            "labels": {
                names.NETWORK_ID: network_id,
                names.SUPER_CLUSTER_ID: super_id,
                names.SERVICE: service_of(found),
                MANAGED_BY: names.GROUP,
                PROXY_NAME: PROJECT,
            },
            "annotations": {names.CLUSTER: owner.tenant, names.NAMESPACE: owner.namespace},
        },
        "addressType": content.get("addressType"),
        "endpoints": [_kept(each) for each in content.get("endpoints") or ()],
        "ports": content.get("ports") or [],
    }


def _kept(endpoint: Mapping[str, Any]) -> Body:
    return {key: endpoint[key] for key in _SHARED if endpoint.get(key)}


def remote(found: Envelope, name: Name, service: Envelope, owner: Owner) -> Body:
    """Return the slice that a super cluster gets for a shared one of another super cluster.

    The endpoints have no nodeName, so no node counts them as its own: `Local` traffic policies do not choose them. Their
    hints name the zone of their node. If it has none, they name the super cluster in its place, so that a node prefers
    endpoints in its own zone and takes these if its zone has none.

    Args:
        found: The shared slice.
        name: Its name.
        service: The copy of the Service in the super cluster that gets it.
        owner: The tenant's namespace.
    """
    spec = decode(service.spec, _ServiceSpec)
    close = spec.traffic_distribution in _CLOSE
    content: Body = untyped(found.rest)
    headless = {HEADLESS_LABEL: ""} if spec.cluster_ip == HEADLESS else {}
    reference = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "name": service.name,
        "uid": service.uid,
    }
    return {
        "metadata": {
            "name": f"{name.slice}.{name.super_id}",
            "labels": {
                SERVICE_NAME: service.name,
                MANAGED_BY: names.REMOTE_ENDPOINTS,
                names.CONTROLLED: names.TRUE,
                names.SUPER_CLUSTER_ID: name.super_id,
                **headless,
            },
            "annotations": {names.CLUSTER: owner.tenant, names.NAMESPACE: owner.namespace},
            "ownerReferences": [reference],
        },
        "addressType": content.get("addressType"),
        "endpoints": [
            _hinted(_kept(each), name.super_id, close=close) for each in content.get("endpoints") or ()
        ],
        "ports": content.get("ports") or [],
    }


def _hinted(endpoint: Body, super_id: str, *, close: bool) -> Body:
    if not close or (endpoint.get("conditions") or {}).get("ready") is False:
        return endpoint
    return {**endpoint, "hints": {"forZones": [{"name": endpoint.get("zone", super_id)}]}}


def writes(wanted: Iterable[Body], present: Iterable[Envelope]) -> Iterator[Write]:
    """Yield the requests that make the present slices equal to the wanted ones."""
    left = {each.name: each for each in present}
    for body in wanted:
        name = body["metadata"]["name"]
        found = left.pop(name, None)
        if found is None:
            whole = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind, **body}
            yield Write("create", name, whole)
        elif untyped(found.rest).get("addressType") != body["addressType"]:
            yield Write("delete", name, uid=found.uid)  # It cannot change; the deletion causes the creation.
        elif patch := _patch(body, found):
            yield Write("patch", name, patch, found.uid)
    for found in left.values():
        if not found.deleting:
            yield Write("delete", found.name, uid=found.uid)


def _patch(wanted: Body, found: Envelope) -> Body:
    """Return the merge patch of a slice; empty if nothing differs."""
    content: Body = untyped(found.rest)
    patch: Body = {field: wanted[field] for field in _CONTENT if wanted[field] != (content.get(field) or [])}
    metadata: Body = {
        key: changed
        for key, have in (("labels", found.labels), ("annotations", found.annotations))
        if (changed := _differing(wanted["metadata"][key], have))
    }
    owners = wanted["metadata"].get("ownerReferences", [])
    if [each["uid"] for each in owners] != [each.uid for each in found.owners]:
        metadata["ownerReferences"] = owners
    if HEADLESS_LABEL in found.labels and HEADLESS_LABEL not in wanted["metadata"]["labels"]:
        metadata.setdefault("labels", {})[HEADLESS_LABEL] = None
    if not patch and not metadata:
        return {}
    return {**patch, "metadata": {**metadata, "uid": found.uid}}


def _differing(wanted: Mapping[str, str], have: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if have.get(key) != value}
