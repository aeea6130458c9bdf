"""The settings of `vcsync run controlplane`, as its options create them and its process reads them."""

from dataclasses import dataclass, field
from pathlib import Path

from vcsync.apiserver.egress.networks import Networks
from vcsync.apiserver.egress.policy import NOTHING, Policy
from vcsync.cli.controlplane.audit_options import AuditOptions
from vcsync.cli.controlplane.authentication_options import AuthenticationSettings
from vcsync.cli.controlplane.limit_options import DEFAULT_LIMITS, LimitOptions
from vcsync.streams.limits import StreamLimits

STALLS = Path("stalls") / "controlplane"
"""Folder of the reports of stalls, within the data folder."""


@dataclass(frozen=True)
class Etcd:
    """Addresses of etcd and certificates for it. The files are PEM; without them: no TLS, or the system's authorities."""

    endpoints: tuple[str, ...]
    prefix: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class ControlPlaneSettings:
    """The settings of `vcsync run controlplane`.

    Attributes:
        advertise: host and port in clients' URLs.
        tenant_domain: domain below which each tenant has a host name; empty: they have none.
        pool: kubeconfig of the meta cluster of the pool that runs tenants' Pods, which may be written later; None: logs and
            exec do not reach them.
        streams: when exec, attach and port-forward end.
        grants: pairs of granting tenant and home tenant whose grants the operator accepts; None: there are no grants.
    """

    data: Path
    listen: tuple[str, int]
    advertise: tuple[str, int] | None
    names: tuple[str, ...]
    authentication: AuthenticationSettings
    etcd: Etcd | None
    audit: AuditOptions | None = None
    limits: LimitOptions = DEFAULT_LIMITS
    webhooks: Policy = NOTHING
    kubelets: Networks = field(default_factory=Networks)
    admission: Path | None = None
    grants: frozenset[tuple[str, str]] | None = None
    pool: Path | None = None
    streams: StreamLimits = field(default_factory=StreamLimits)
    tenant_domain: str = ""
