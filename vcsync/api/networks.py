"""Spec and status of Network, which the embedded control planes of tenants serve."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from vcsync.api import names
from vcsync.api.conditions import Condition
from vcsync.api.fields import Message, about
from vcsync.kube.resources import Resource

NETWORKS: Final = Resource(
    group=names.GROUP, version=names.VERSION, plural="networks", kind="Network", namespaced=False
)
DEFAULT_NETWORK: Final = "default"
"""The network that every tenant has, and that cannot be deleted."""
SERVICE_PREFIX: Final = "kube-dns-"
"""Start of the name of a network's Service in `kube-system`; the network's name follows."""
MAX_NAME_LENGTH: Final = names.MAX_LABEL_LENGTH - len(SERVICE_PREFIX)
"""Maximum length of a network's name."""

NetworkType = Literal["Flat", "VPC"]
NetworkPhase = Literal["", "Pending", "Ready", "Failed", "Terminating"]


class NetworkSpec(Struct, frozen=True, kw_only=True):
    """The kind of network that is wanted."""

    type: Annotated[
        NetworkType,
        about("Flat: one address space for all tenants. VPC: an address space of its own. It cannot change."),
    ] = "Flat"
    vpc_id: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$", max_length=63)] | None,
        about("Name of the VPC. Only a network of type VPC has one, and it cannot change."),
    ] = msgspec.field(default=None, name="vpcID")

    def problem(self) -> str:
        """Return what is wrong with the combination of fields, with the remedy; empty: nothing."""
        if (self.type == "VPC") == (self.vpc_id is not None):
            return ""
        return "vpcID is required with type VPC, and refused otherwise: add or remove it"


class NetworkStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The observed state of a network."""

    phase: Annotated[NetworkPhase, about("Summary of the network's life.")] = ""
    message: Annotated[Message, about("Reason for the phase.")] = ""
    dns_service_ip: Annotated[
        Annotated[str, Meta(max_length=45)],
        about("Address of the network's DNS Service, which is kube-dns-NAME in namespace kube-system."),
    ] = msgspec.field(default="", name="dnsServiceIP")
    conditions: Annotated[
        Annotated[tuple[Condition, ...], Meta(max_length=16, extra={"list_map_keys": ("type",)})],
        about("Enforced: whether a data plane enforces the network. NameServer: whether there is one."),
    ] = ()
