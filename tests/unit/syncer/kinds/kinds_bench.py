"""Two API servers in memory that execute plans, with the behaviour that the kinds depend on."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import INGRESSES, NAMESPACES, NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.syncer.host_index import HostIndex, Place
from vcsync.syncer.kinds import KINDS, ingress_rules, token
from vcsync.syncer.kinds.plan import (
    Action,
    Bind,
    ConfirmAbsent,
    Create,
    Delete,
    Dependency,
    EnsureNode,
    Notify,
    Patch,
    Placement,
    Plan,
    RequestToken,
    TenantContext,
)

Key = tuple[str, str, str, str]
"""side, plural, namespace, name"""

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KEY = "acme-1a2b3c-main"
NODE = "node-1"

CONTEXT = TenantContext(
    key=KEY,
    vc_name="main",
    vc_namespace="acme",
    vc_uid="vc-uid",
    super_id="r1",
    api_host="10.9.8.7",
    api_port=6443,
    cluster_domain="acme.local",
)

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "conditions": "type",
}


def super_ns(namespace: str) -> str:
    return names.super_namespace(KEY, namespace)


class Bench:
    """Both sides of one tenant. A `View` for plans."""

    def __init__(self, context: TenantContext = CONTEXT) -> None:
        self.context = context
        self.objects: dict[Key, dict[str, Any]] = {}
        self.placements: dict[str, Placement] = {}
        self.notices: list[Notify] = []
        self.seen_gone: set[str] = set()
        self.ensured: list[str] = []
        self.leaving: list[Envelope] = []
        """Copies of Pods on unschedulable nodes."""
        self.failing: dict[str, float] = {}
        """UID of a copy of a claim -> seconds since its provisioner first failed."""
        self.pending: dict[str, float] = {}
        """UID of a copy of a Pod -> seconds since no node suits it."""
        self._uids = itertools.count(1)

    # --- What tests set up ---

    def put(self, side: str, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as an API server would after a create."""
        stored = copy.deepcopy(dict(body))
        meta = stored.setdefault("metadata", {})
        stored.setdefault("apiVersion", resource.api_version)
        stored.setdefault("kind", resource.kind)
        if resource.namespaced:
            meta.setdefault("namespace", "shop")
        meta.setdefault("uid", f"{side}-uid-{next(self._uids)}")
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", "2026-05-01T12:00:00Z")
        if resource.plural == "pods":
            _default_pod(stored)
        if resource.plural == "services":
            self._default_service(side, stored)
        self.objects[(side, resource.plural, meta.get("namespace", ""), meta["name"])] = stored
        self._touch(stored)
        return stored

    def place(self, namespace: str = "shop", slices: Mapping[str, int] | None = None) -> None:
        """Place a namespace and let it come down, with its default ServiceAccount on both sides."""
        self.placements[namespace] = Placement(
            slices or {"r1": 2},
            {"cpu": "2", "memory": "4Gi"},
            {"requests.cpu": "4", "requests.memory": "8Gi"},
        )
        self.put("tenant", NAMESPACES, {"metadata": {"name": namespace}})
        self.settle("namespaces", "", namespace)
        self.put("tenant", SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})
        self.settle("serviceaccounts", namespace, "default")

    def edit(
        self, side: str, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str = ""
    ) -> None:
        """A merge patch by somebody else."""
        key = self.key(side, resource, namespace, name)
        before = self.objects[key]
        after = merge_patch(before, dict(patch))
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] += 1
        self.objects[key] = after
        self._touch(after)

    def key(self, side: str, resource: Resource, namespace: str, name: str) -> Key:
        if not namespace and resource.namespaced:
            namespace = "shop" if side == "tenant" else super_ns("shop")
        return side, resource.plural, namespace, name

    def get(self, side: str, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        return self.objects[self.key(side, resource, namespace, name)]

    def has(self, side: str, resource: Resource, name: str, namespace: str = "") -> bool:
        return self.key(side, resource, namespace, name) in self.objects

    def remove(
        self, side: str, resource: Resource, name: str, namespace: str = "", *, seen: bool = True
    ) -> None:
        gone = self.objects.pop(self.key(side, resource, namespace, name))
        if seen:
            self.seen_gone.add(gone["metadata"]["uid"])

    # --- View ---

    def tenant(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        return self._envelope(("tenant", resource.plural, namespace, name))

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        return self._envelope(("super", resource.plural, namespace, name))

    def placement(self, namespace: str) -> Placement | None:
        return self.placements.get(namespace)

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        return uid in self.seen_gone

    def on_cordoned_nodes(self, namespace: str) -> Iterator[Envelope]:
        return iter(self.leaving if namespace == "shop" else ())

    def turn(self, seconds: float) -> int:
        return int(NOW.timestamp() // seconds)

    def unschedulable_for(self, uid: str) -> float:
        return self.pending.get(uid, 0.0)

    def provisioning_failed_for(self, uid: str) -> float | None:
        return self.failing.get(uid)

    def host_holder(self, host: str, *, before: tuple[str, str] | None = None) -> Dependency | None:
        found = self._hosts().holder(self.context.key, host, before=before)
        return Dependency("super", INGRESSES, *found) if found is not None else None

    def is_backend(self, namespace: str, service: str) -> bool:
        return self._hosts().is_backend(namespace, service)

    def _hosts(self) -> HostIndex:
        index = HostIndex()
        for key in self.objects:
            if key[:2] == ("super", "ingresses") and (found := self._envelope(key)) is not None:
                owner = found.annotations.get(names.CLUSTER, "")
                age = (found.creation_timestamp, found.uid)
                index.put(Place(*key[2:]), owner, age, ingress_rules.claims(ingress_rules.read(found.spec)))
        return index

    def _envelope(self, key: Key) -> Envelope | None:
        stored = self.objects.get(key)
        return parse(json.dumps(stored).encode()) if stored is not None else None

    # --- Reconciling ---

    def pair(self, kind_name: str, namespace: str, name: str) -> tuple[Envelope | None, Envelope | None]:
        kind = KINDS[kind_name]
        v = self.tenant(kind.resource, namespace, name)
        if kind_name == "namespaces":
            return v, self.super(kind.resource, "", super_ns(name))
        super_name = kind.super_name(name)
        return v, None if super_name is None else self.super(kind.resource, super_ns(namespace), super_name)

    def plan(self, kind_name: str, namespace: str, name: str) -> Plan:
        v, p = self.pair(kind_name, namespace, name)
        return KINDS[kind_name].plan(v, p, self.context, self)

    def settle(self, kind_name: str, namespace: str, name: str, *, rounds: int = 5) -> list[Plan]:
        """Reconcile until a plan has no actions; the plans that had some."""
        plans = []
        for _ in range(rounds):
            plan = self.plan(kind_name, namespace, name)
            if not plan.actions:
                return plans
            plans.append(plan)
            for action in plan.actions:
                self.execute(action)
        raise AssertionError(f"{kind_name} {namespace}/{name} does not settle: {plans[-1].actions}")

    def execute(self, action: Action) -> None:
        match action:
            case Create():
                assert action.body["metadata"].get("namespace", "") == action.namespace
                key = (action.side, action.resource.plural, action.namespace, action.body["metadata"]["name"])
                assert key not in self.objects, f"{key} exists"
                json.dumps(action.body)
                self.put(action.side, action.resource, action.body)
            case Patch():
                self._patch(action)
            case Delete():
                self._delete(action)
            case ConfirmAbsent():
                key = (action.side, action.resource.plural, action.namespace, action.name)
                assert key not in self.objects, f"{key} exists"
            case Bind():
                pod = self.objects[("tenant", "pods", action.namespace, action.name)]
                assert pod["metadata"]["uid"] == action.uid
                assert pod["metadata"]["resourceVersion"] == action.resource_version
                assert "nodeName" not in pod["spec"]
                pod["spec"]["nodeName"] = action.node
                conditions = pod["status"].setdefault("conditions", [])
                conditions[:] = [entry for entry in conditions if entry["type"] != "PodScheduled"]
                conditions.append(
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-05-01T12:00:09Z"}
                )
                self._touch(pod)
                if action.status is not None:
                    assert action.status["metadata"]["uid"] == action.uid
                    self._patch(
                        Patch(
                            "tenant",
                            PODS,
                            action.namespace,
                            action.name,
                            action.uid,
                            action.status,
                            subresource="status",
                        )
                    )
            case EnsureNode():
                self.ensured.append(action.node)
            case Notify():
                self.notices.append(action)
            case RequestToken():
                grants = {
                    source.key: token.Granted(
                        "t", NOW + timedelta(seconds=source.expiration_seconds), source.expiration_seconds
                    )
                    for source in action.tokens
                }
                self.put("super", SECRETS, token.secret_body(action, grants, self.context, issued=NOW))

    def _patch(self, action: Patch) -> None:
        key = (action.side, action.resource.plural, action.namespace, action.name)
        before = self.objects[key]
        assert action.patch["metadata"]["uid"] == action.uid == before["metadata"]["uid"]
        if action.subresource == "status":
            assert set(action.patch) <= {"metadata", "status"}
        else:
            assert "status" not in action.patch
        apply = merge_patch if action.kind == "merge" else strategic
        after = apply(copy.deepcopy(before), json.loads(json.dumps(action.patch)))
        assert after != before, f"a patch that changes nothing: {action.patch}"
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if action.resource is PODS:
            assert after["status"].get("qosClass") == before["status"].get("qosClass")
        self.objects[key] = after
        self._touch(after)
        self._remove_if_ended(key)

    def _remove_if_ended(self, key: Key) -> None:
        """Remove an object that is being deleted and that nothing keeps any more."""
        meta = self.objects[key]["metadata"]
        ends = "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds")
        if ends and not meta.get("finalizers"):
            del self.objects[key]
            if key[0] == "tenant":
                self.seen_gone.add(meta["uid"])

    def _delete(self, action: Delete) -> None:
        key = (action.side, action.resource.plural, action.namespace, action.name)
        stored = self.objects[key]
        assert stored["metadata"]["uid"] == action.uid
        assert action.resource_version in ("", stored["metadata"]["resourceVersion"])
        graceful = action.resource is PODS and stored["spec"].get("nodeName") and action.grace_seconds != 0
        if graceful:
            grace = action.grace_seconds
            if grace is None:
                grace = stored["spec"].get("terminationGracePeriodSeconds", 30)
            stored["metadata"]["deletionTimestamp"] = "2026-05-01T12:01:00Z"
            stored["metadata"]["deletionGracePeriodSeconds"] = grace
            self._touch(stored)
        else:
            mark = {"deletionTimestamp": "2026-05-01T12:01:00Z", "deletionGracePeriodSeconds": 0}
            stored["metadata"].update(mark)
            self._touch(stored)
            self._remove_if_ended(key)

    def _touch(self, stored: dict[str, Any]) -> None:
        stored["metadata"]["resourceVersion"] = str(next(self._uids) + 1000)

    def _default_service(self, side: str, stored: dict[str, Any]) -> None:
        spec = stored.setdefault("spec", {})
        stored.setdefault("status", {"loadBalancer": {}})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        number = next(self._uids)
        spec.setdefault("clusterIP", f"10.{96 if side == 'tenant' else 97}.0.{number % 250}")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        for index, port in enumerate(spec.get("ports") or ()):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])
            if spec["type"] in ("NodePort", "LoadBalancer"):
                port.setdefault("nodePort", 30000 + (number * 7 + index) % 2000)

    # --- What a super cluster does by itself ---

    def schedule(self, name: str, node: str = NODE) -> None:
        pod = self.get("super", PODS, name)
        pod["spec"]["nodeName"] = node
        pod["metadata"]["generation"] += 1
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-05-01T12:00:05Z",
                "observedGeneration": 1,
            }
        ]
        self.put("super", NODES, {"metadata": {"name": node}})
        self._touch(pod)

    def run(self, name: str) -> None:
        pod = self.get("super", PODS, name)
        generation = pod["metadata"]["generation"]
        conditions = pod["status"].setdefault("conditions", [])
        conditions.append(
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-05-01T12:00:07Z",
                "observedGeneration": generation,
            }
        )
        pod["status"].update(
            phase="Running", podIP="10.1.2.3", podIPs=[{"ip": "10.1.2.3"}], observedGeneration=generation
        )
        self._touch(pod)


def _default_pod(stored: dict[str, Any]) -> None:
    spec = stored.setdefault("spec", {})
    spec.setdefault("containers", [{"name": "app", "image": "acme/app:1"}])
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for container in itertools.chain(spec["containers"], spec.get("initContainers") or ()):
        container.setdefault("resources", {})
    stored.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})


def strategic(target: Any, patch: Any) -> Any:
    """Strategic merge patch, as far as Pods need it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        elif field in _MERGE_KEYS and isinstance(value, list):
            result[field] = list(_merge_lists(result.get(field) or [], value, _MERGE_KEYS[field]))
        else:
            result[field] = strategic(result.get(field), value)
    return result


def _merge_lists(old: list[Any], new: list[Any], key: str) -> Iterator[Any]:
    changes = {entry[key]: entry for entry in new}
    for entry in old:
        change = changes.pop(entry[key], {})
        if change.get("$patch") != "delete":
            yield strategic(entry, change)
    yield from changes.values()
