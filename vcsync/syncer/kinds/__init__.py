"""The synced kinds, one module for each: pure functions from two cached objects to a plan. No I/O, no clock."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vcsync.syncer.kinds.configmap import CONFIG_MAP
from vcsync.syncer.kinds.endpoints import ENDPOINTS_KIND
from vcsync.syncer.kinds.endpointslice import ENDPOINT_SLICE
from vcsync.syncer.kinds.ingress import INGRESS
from vcsync.syncer.kinds.namespace import NAMESPACE
from vcsync.syncer.kinds.networkpolicy import NETWORK_POLICY
from vcsync.syncer.kinds.persistentvolumeclaim import PERSISTENT_VOLUME_CLAIM
from vcsync.syncer.kinds.plan import Kind
from vcsync.syncer.kinds.pod import POD
from vcsync.syncer.kinds.poddisruptionbudget import POD_DISRUPTION_BUDGET
from vcsync.syncer.kinds.resourceclaim import RESOURCE_CLAIM
from vcsync.syncer.kinds.secret import SECRET
from vcsync.syncer.kinds.service import SERVICE
from vcsync.syncer.kinds.serviceaccount import SERVICE_ACCOUNT
from vcsync.syncer.kinds.volumesnapshot import VOLUME_SNAPSHOT

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            NAMESPACE,
            NETWORK_POLICY,
            POD_DISRUPTION_BUDGET,
            SERVICE_ACCOUNT,
            CONFIG_MAP,
            SECRET,
            SERVICE,
            INGRESS,
            ENDPOINTS_KIND,
            ENDPOINT_SLICE,
            PERSISTENT_VOLUME_CLAIM,
            RESOURCE_CLAIM,
            VOLUME_SNAPSHOT,
            POD,
        )
    }
)
"""Every synced kind by its name, dependencies before dependents. Nodes and Events have functions of their own."""
