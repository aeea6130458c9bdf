"""The kind Endpoints: defaults, validation, the deprecation warning and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/endpoints` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import address, reachable
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_containers import PROTOCOLS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    choice,
    indexed,
    items,
    number,
    port,
    say,
    text,
)
from vcsync.apimachinery.wire import cells


def _endpoints_default(found: Object) -> None:
    for subset in items(found, "subsets"):
        for each in items(subset, "ports"):
            fill(each, {"protocol": "TCP"})


def _endpoints_findings(found: Object) -> Findings:
    for subset, here in indexed(found, "subsets", "subsets"):
        if not items(subset, "addresses") and not items(subset, "notReadyAddresses"):
            yield errors.required(here, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for each, place in indexed(subset, key, f"{here}.{key}"):
                yield from _endpoint_address(place, each)
        for each, place in indexed(subset, "ports", f"{here}.ports"):
            yield from _endpoint_port(place, each, len(items(subset, "ports")) > 1)


def _endpoint_address(path: str, found: Object) -> Findings:
    ip = text(found, "ip")
    yield from address(f"{path}.ip", ip)
    if text(found, "hostname"):
        yield from say(f"{path}.hostname", found["hostname"], names.dns_label(found["hostname"]))
    if "nodeName" in found:
        yield from say(f"{path}.nodeName", found["nodeName"], names.dns_subdomain(found["nodeName"]))
    yield from reachable(f"{path}.ip", ip)


def _endpoint_port(path: str, found: Object, named: bool) -> Findings:
    name = text(found, "name")
    if name:
        yield from say(f"{path}.name", name, names.dns_label(name))
    elif named:
        yield errors.required(f"{path}.name")
    yield from port(f"{path}.port", number(found, "port"))
    yield from choice(f"{path}.protocol", text(found, "protocol"), PROTOCOLS)
    if "appProtocol" in found:
        yield from say(
            f"{path}.appProtocol", found["appProtocol"], names.qualified_name(found["appProtocol"])
        )


def _endpoints_update(new: Object, old: Object) -> list[FieldError]:
    return [] if items(new, "subsets") == items(old, "subsets") else list(_endpoints_findings(new))


def endpoints(obj: cells.Object, _: datetime) -> str:
    """Return the addresses of Endpoints."""
    subsets = cells.look(obj, "subsets", ())
    if not subsets:
        return cells.NONE
    texts: list[str] = []
    for subset in subsets:
        addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        texts += (
            [_host_port(ip, port.get("port", 0)) for port in ports for ip in addresses]
            if ports
            else addresses
        )
    return cells.more(texts, len(texts), cells.SHOWN)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


KIND = Kind(
    group="",
    kind="Endpoints",
    plural="endpoints",
    create_on_update=True,
    default=_endpoints_default,
    validate=lambda found: list(_endpoints_findings(found)),
    validate_update=_endpoints_update,
    columns={"Name": cells.name, "Endpoints": endpoints, "Age": cells.age},
    repeats_finalizer_findings=True,
    deprecations={"v1": ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)},
)
