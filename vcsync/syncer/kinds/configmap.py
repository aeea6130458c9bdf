"""ConfigMaps: their content is copied down. The tenant's `kube-root-ca.crt` gets another name in the super cluster."""

from __future__ import annotations

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.data import plan_content
from vcsync.syncer.kinds.plan import EMPTY, Kind, Parts, Plan, TenantContext, View


def super_name(name: str) -> str | None:
    """Return a ConfigMap's name in the super cluster; None if the name is reserved there.

    The super cluster publishes its own root CA as `kube-root-ca.crt`, so the tenant's has another name there.
    """
    if name == names.TENANT_ROOT_CA:
        return None
    return names.TENANT_ROOT_CA if name == names.ROOT_CA else name


def tenant_name(name: str) -> str | None:
    """Return a ConfigMap's name in the tenant: the reverse of `super_name`."""
    if name == names.ROOT_CA:
        return None
    return names.ROOT_CA if name == names.TENANT_ROOT_CA else name


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Keep the super ConfigMap's data equal to the tenant's."""
    if v is None:
        if p is None or (name := tenant_name(p.name)) is None:
            return EMPTY
        return metadata.orphan(CONFIG_MAPS, p, name, context, view)
    name = super_name(v.name)
    if name is None:
        return metadata.reserved_name(CONFIG_MAPS, v.name)
    return plan_content(CONFIG_MAPS, v, p, context, view, content=None, fixed=frozenset(), name=name)


CONFIG_MAP = Kind(
    name="configmaps",
    resource=CONFIG_MAPS,
    digested=True,
    plan=plan,
    super_name=super_name,
    tenant_name=tenant_name,
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
)
"""ConfigMaps."""
