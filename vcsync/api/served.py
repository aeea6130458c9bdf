"""The definitions that embedded control planes serve to tenants without storing them."""

from collections.abc import Iterable
from typing import Any, Final

from vcsync.api import grants, names
from vcsync.api.crd import Column, Definition, crd
from vcsync.api.fields import Rule
from vcsync.api.networks import MAX_NAME_LENGTH, SERVICE_PREFIX, NetworkSpec, NetworkStatus
from vcsync.api.networks import NETWORKS as RESOURCE

_NETWORK: Final = Definition(
    resource=RESOURCE,
    short_names=("ne", "net"),
    description="A network of the tenant. No data plane enforces its isolation yet: the condition Enforced tells.",
    spec=NetworkSpec,
    status=NetworkStatus,
    columns=(
        Column("Type", ".spec.type"),
        Column("VPC", ".spec.vpcID"),
        Column("Phase", ".status.phase"),
        Column("DNS", ".status.dnsServiceIP"),
        Column("Enforced", '.status.conditions[?(@.type=="Enforced")].status', priority=1),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    rules=(
        Rule(
            f"!self.metadata.name.contains('.') && size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            f"metadata.name becomes part of the name of Service {SERVICE_PREFIX}NAME: choose one without dots, of at most "
            f"{MAX_NAME_LENGTH} characters",
        ),
        Rule(
            "self.spec.type != 'VPC' || has(self.spec.vpcID)",
            "spec.vpcID is required with type VPC: set it to the name of the VPC",
            ".spec.vpcID",
        ),
        Rule(
            "self.spec.type == 'VPC' || !has(self.spec.vpcID)",
            "spec.vpcID has a meaning with type VPC only: remove it, or set spec.type to VPC",
            ".spec.vpcID",
        ),
        Rule(
            "self.spec.type == oldSelf.spec.type",
            "spec.type cannot change: delete the network and create another one",
            ".spec.type",
        ),
        Rule(
            "has(self.spec.vpcID) == has(oldSelf.spec.vpcID) && "
            "(!has(self.spec.vpcID) || self.spec.vpcID == oldSelf.spec.vpcID)",
            "spec.vpcID cannot change: delete the network and create another one",
            ".spec.vpcID",
        ),
    ),
)

GRANTS: Final = grants.DEFINITIONS
"""Served if the operator lets tenants grant permissions to others."""
NETWORKS: Final = (_NETWORK,)
"""Served to tenants whose controllers and nodes are vcsync's."""
DEFINITIONS: Final = (*GRANTS, *NETWORKS)


def established(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return CRDs as apiextensions.k8s.io/v1 objects whose names have been accepted."""
    return [_established(crd(each)) for each in definitions]


def _established(definition: dict[str, Any]) -> dict[str, Any]:
    given = {
        "acceptedNames": definition["spec"]["names"],
        "conditions": [
            {"type": kind, "status": "True", "reason": "BuiltIn", "message": ""}
            for kind in ("NamesAccepted", "Established")
        ],
        "storedVersions": [names.VERSION],
    }
    return {**definition, "status": given}
