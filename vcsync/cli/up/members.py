"""The tenants and super clusters of a system that `vcsync up` or `vcsync setup` sets up. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass

from vcsync.registration.kubeconfigs import Admin


@dataclass(frozen=True)
class Members:
    """The tenants and super clusters. `real`: real super clusters by id, with their administrators' kubeconfigs.

    `limits`: limits of every new tenant, as fields of a VirtualCluster's spec.
    """

    tenants: tuple[str, ...]
    hollow: tuple[str, ...]
    real: Mapping[str, Admin]
    limits: Mapping[str, Mapping[str, str]]
