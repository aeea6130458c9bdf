"""A super cluster as far as vcsync does not write it: quota, namespace controller, scheduler, kubelets."""

from __future__ import annotations

from typing import Any

from vcsync.api import names
from vcsync.kube.errors import Forbidden, NotFound, Status
from vcsync.kube.resources import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, Resource
from vcsync.objects.quantity import canonical, milli

from .api_server import NOW, ApiServer, Body, Event, has_ended, strategic

NODE = "node"


class SuperCluster:
    """One super cluster.

    Attributes:
        id: its id.
        api: its API server.
        off: whether its nodes are switched off, as an operator guarantees by a fence.
        full: whether its scheduler finds no node for new Pods.
    """

    def __init__(self, super_id: str) -> None:
        self.id = super_id
        self.api = ApiServer(super_id)
        self.off = False
        self.full = False
        self.api.create(NODES, {"metadata": {"name": NODE}, "spec": {}, "status": {"conditions": []}})
        self.api.admit.append(self._admit)
        self.api.written.append(self._follow)

    def copies(self) -> list[Body]:
        return [body for body in self.api.every(PODS) if names.UID in body["metadata"].get("annotations", {})]

    def runs(self, copy: Body) -> bool:
        """Return whether a copy may run: it has a node that is switched on, and has not ended."""
        return bool(copy["spec"].get("nodeName")) and not has_ended(copy) and not self.off

    # What happens by itself

    def schedule(self, copy: Body) -> None:
        """Let the scheduler look at a copy."""
        if copy["spec"].get("nodeName") or has_ended(copy):
            return
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
        if self.full:
            condition |= {"status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
        status = strategic(copy["status"], {"conditions": [condition]})
        spec = copy["spec"] if self.full else {**copy["spec"], "nodeName": NODE}
        if (spec, status) != (copy["spec"], copy["status"]):
            self.api.put(PODS, {**copy, "spec": spec, "status": status})

    def start(self, copy: Body) -> None:
        """Let the kubelet report that a copy runs."""
        if (
            self.runs(copy)
            and copy["status"]["phase"] == "Pending"
            and "deletionTimestamp" not in copy["metadata"]
        ):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
            status = strategic(copy["status"], {"phase": "Running", "startTime": NOW, "conditions": [ready]})
            self.api.put(PODS, {**copy, "status": status})

    def end(self, copy: Body) -> None:
        """Let the containers of a copy end by themselves."""
        if self.runs(copy):
            self.api.put(PODS, {**copy, "status": {**copy["status"], "phase": "Succeeded"}})

    def stop(self, copy: Body) -> None:
        """Let the kubelet finish the deletion of a copy."""
        metadata = copy["metadata"]
        if "deletionTimestamp" in metadata and not self.off:
            self.api.delete(
                PODS,
                metadata["name"],
                metadata["namespace"],
                uid=metadata["uid"],
                grace_seconds=0,
                who="kubelet",
            )

    def work(self) -> None:
        """Let the scheduler and all kubelets do everything that there is to do."""
        for copy in self.copies():
            self.schedule(copy)
        for copy in self.copies():
            self.start(copy)
            self.stop(copy)

    # Rules of the API server

    def _admit(self, verb: str, resource: Resource, body: Body, who: str) -> None:
        namespace = body["metadata"].get("namespace", "")
        if verb != "create" or not namespace:
            return
        found = self.api.find(NAMESPACES, namespace)
        if found is None:
            raise NotFound(Status(404, "NotFound", f'namespaces "{namespace}" not found'), endpoint=self.id)
        if "deletionTimestamp" in found["metadata"]:
            message = f"namespace {namespace} is being terminated"
            raise Forbidden(Status(403, "Forbidden", message), endpoint=self.id)
        quota = self.api.find(RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, namespace)
        if resource == PODS and quota is not None:
            used = self._used(namespace, body)
            for name, hard in quota["spec"]["hard"].items():
                if used.get(name, 0) > milli(hard):
                    message = f"exceeded quota: {names.SUPER_QUOTA_NAME}, limited: {name}={hard}"
                    raise Forbidden(Status(403, "Forbidden", message), endpoint=self.id)

    def _used(self, namespace: str, more: Body | None = None) -> dict[str, int]:
        pods = [each for each in self.api.every(PODS) if each["metadata"]["namespace"] == namespace]
        counted = [each for each in [*pods, *([more] if more else [])] if not has_ended(each)]
        used = {"pods": 1000 * len(counted), "requests.cpu": 0, "requests.memory": 0}
        for each in counted:
            for container in each["spec"]["containers"]:
                for name, amount in container["resources"].get("requests", {}).items():
                    used[f"requests.{name}"] = used.get(f"requests.{name}", 0) + milli(amount)
        return used

    def _follow(self, event: Event) -> None:
        """Act as the controllers of namespaces, of ServiceAccounts and of quotas."""
        body = event.after or event.before
        assert body is not None
        namespace = body["metadata"].get("namespace", "")
        if event.plural == "namespaces":
            self._follow_namespace(event)
        elif event.plural in ("pods", "resourcequotas"):
            self._count(namespace)
            if event.after is None and event.plural == "pods":
                self._finish(namespace)

    def _follow_namespace(self, event: Event) -> None:
        if event.after is None:
            return
        name = event.after["metadata"]["name"]
        if event.before is None:
            finalizers = {"metadata": {**event.after["metadata"], "finalizers": ["kubernetes"]}}
            self.api.put(NAMESPACES, {**event.after, **finalizers})
            self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, name)
        elif (
            "deletionTimestamp" in event.after["metadata"]
            and "deletionTimestamp" not in event.before["metadata"]
        ):
            for pod in list(self.api.every(PODS)):
                if pod["metadata"]["namespace"] == name:
                    self.api.delete(PODS, pod["metadata"]["name"], name, who="namespace controller")
            self._finish(name)

    def _finish(self, namespace: str) -> None:
        """Remove a namespace that is being deleted and has no Pods."""
        found = self.api.find(NAMESPACES, namespace)
        if found is None or "deletionTimestamp" not in found["metadata"]:
            return
        if any(each["metadata"]["namespace"] == namespace for each in self.api.every(PODS)):
            return
        for resource in (RESOURCE_QUOTAS, SERVICE_ACCOUNTS):
            for each in self.api.every(resource):
                if each["metadata"]["namespace"] == namespace:
                    self.api.delete(resource, each["metadata"]["name"], namespace)
        self.api.patch(NAMESPACES, namespace, {"metadata": {"finalizers": []}})

    def _count(self, namespace: str) -> None:
        quota = self.api.find(RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, namespace)
        if quota is None:
            return
        used = self._used(namespace)
        hard = quota["spec"]["hard"]
        status = {"hard": hard, "used": {name: canonical(used.get(name, 0)) for name in hard}}
        if quota.get("status") != status:
            self.api.put(RESOURCE_QUOTAS, {**quota, "status": status})
