"""Audiences for which the volumes of a Pod need tokens: those of projected volumes and of CSI drivers.

Source: Kubernetes' `plugin/pkg/admission/noderestriction`, `podReferencesAudience`.
"""

from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.authorization import node_graph


class Volumes:
    """The volumes of a Pod.

    Attributes:
        problems: Errors about objects that volumes name and that do not exist.
    """

    def __init__(self, lookup: Lookup, tenant: str, pod: Object) -> None:
        """Create the volumes.

        Args:
            lookup: Reads claims, volumes and CSI drivers.
            tenant: Tenant of the Pod.
            pod: The Pod.
        """
        self._lookup = lookup
        self._tenant = tenant
        self._pod = pod
        self.problems: list[str] = []

    async def need_token_for(self, audience: str) -> bool:
        """Return whether any volume needs a token for an audience."""
        for volume in (self._pod.get("spec") or {}).get("volumes") or ():
            if _projects(volume, audience):
                return True
            driver = await self._driver(volume)
            if driver and await self._requests(driver, audience):
                return True
        return False

    async def _driver(self, volume: Object) -> str:
        """Return the CSI driver of a volume, or an empty text."""
        for claim in node_graph.claims_of({**self._pod, "spec": {"volumes": [volume]}}):
            namespace = self._pod["metadata"].get("namespace", "")
            found = await self._get("", "persistentvolumeclaim", claim, namespace)
            if found is None:
                return ""
            bound = node_graph.at(found, "spec", "volumeName") or ""
            volume = node_graph.at(await self._get("", "persistentvolume", bound), "spec") or {}
        return node_graph.at(volume, "csi", "driver") or ""

    async def _requests(self, driver: str, audience: str) -> bool:
        found = await self._get("storage.k8s.io", "csidriver", driver)
        requests = node_graph.at(found, "spec", "tokenRequests") or ()
        return any((each.get("audience") or "") == audience for each in requests)

    async def _get(self, group: str, kind: str, name: str, namespace: str = "") -> Any:
        found = await self._lookup.get(self._tenant, group, f"{kind}s", name, namespace) if name else None
        if found is None:
            qualified = f"{kind}.{group}" if group else kind
            self.problems.append(f'{qualified} "{name}" not found')
        return found


def _projects(volume: Object, audience: str) -> bool:
    for source in node_graph.at(volume, "projected", "sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None and (token.get("audience") or "") == audience:
            return True
    return False
