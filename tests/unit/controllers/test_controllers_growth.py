"""No controller's reconcile costs more than in proportion to what a tenant has written, and none as much as a number says.

Each row grows one list or number that tenants write. The reconcile is measured at two sizes by the instructions that it takes and
the bytes that it holds. A new controller needs a row.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from counted_work import work_of

from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import Controller, Outcome, View
from vcsync.controllers.garbagecollector import garbage_collector_plan
from vcsync.controllers.garbagecollector.graph import FOREGROUND, Graph, Node, Uid
from vcsync.controllers.hpa import rates
from vcsync.controllers.hpa.metrics_client import seconds
from vcsync.controllers.hpa.objects import Behavior, Policy, Rules, Spec
from vcsync.controllers.job import indexes
from vcsync.controllers.manager.role import all_controllers
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
    Resource,
)
from vcsync.objects.envelope import Envelope, encode, parse

TENANT, SPACE = "acme", "default"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2025-12-31T00:00:00Z"
LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SMALL = 60
TIMES = 4
"""Factor between the two sizes of a list."""
LINEAR = 1.3 * TIMES
"""Most growth of the work for a list of so many times the size. A quadratic part of a tenth is above it."""
NUMBERS = (2000, 2**31 - 1)
Body = dict[str, Any]
Bodies = Iterable[tuple[Resource, Body]]


class Objects:
    """The objects of one resource, indexed like a mirror."""

    def __init__(self) -> None:
        self.spaces: dict[tuple[str, str], dict[str, Envelope]] = defaultdict(dict)
        self.by_owner: dict[str, list[Envelope]] = defaultdict(list)

    def put(self, envelope: Envelope) -> None:
        tenant, _, namespace = envelope.namespace.partition("/")
        self.spaces[tenant, namespace][envelope.name] = envelope
        for owner in envelope.owners or ():
            self.by_owner[owner.uid].append(envelope)

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        return self.spaces.get((tenant, namespace), {}).get(name)

    def within(self, tenant: str, namespace: str = "") -> list[Envelope]:
        return list(self.spaces.get((tenant, namespace), {}).values())

    def count(self, tenant: str, namespace: str) -> int:
        return len(self.spaces.get((tenant, namespace), {}))

    def owned(self, uid: str) -> list[Envelope]:
        return self.by_owner.get(uid, [])

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        return [each for each in self.within(tenant, namespace) if not each.owners]


def meta(name: str, **more: Any) -> Body:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": TIME, **more}


def owned(resource: Resource, by: str = "x") -> Body:
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": by, "uid": f"uid-{by}"}
    return {"ownerReferences": [{**owner, "controller": True}]}


def view(bodies: Bodies) -> View:
    of: Mapping[Resource, Objects] = defaultdict(Objects)
    for resource, body in bodies:
        namespace = body["metadata"].get("namespace", SPACE) if resource.namespaced else ""
        metadata = {**body["metadata"], "namespace": namespace}
        of[resource].put(placed(parse(encode({**body, "metadata": metadata})), TENANT))
    serial = itertools.count(10_000)
    return View(of, NOW, lambda: str(next(serial)))


def pod(name: str, status: Body | None = None, **metadata: Any) -> tuple[Resource, Body]:
    running = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
    }
    spec = {"nodeName": "n", "containers": [{"name": "c"}]}
    return PODS, {
        "metadata": meta(name, labels=LABELS, **metadata),
        "spec": spec,
        "status": status or running,
    }


def one(resource: Resource, spec: Body | None = None, status: Body | None = None, **metadata: Any) -> Any:
    return resource, {"metadata": meta("x", **metadata), "spec": spec or {}, "status": status or {}}


def workload(resource: Resource, **spec: Any) -> tuple[Resource, Body]:
    found: tuple[Resource, Body] = one(resource, {"selector": SELECTOR, "template": TEMPLATE, **spec})
    return found


def pods_of(resource: Resource, count: int, name: str = "x-{}") -> Bodies:
    return [pod(name.format(each), **owned(resource)) for each in range(count)]


class Row(NamedTuple):
    """What one reconcile is measured with.

    Attributes:
        controller: Name of the controller.
        what: What grows.
        bodies: Returns the objects of a size.
        numbers: Whether a number grows, whose size must not matter; otherwise a list grows.
        name: Name of the reconciled object.
    """

    controller: str
    what: str
    bodies: Callable[[int], Bodies]
    numbers: bool = False
    name: str = "x"


SERVICE = one(
    SERVICES, {"selector": LABELS, "clusterIP": "10.1.0.1", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}
)
NAMED = {"selector": LABELS, "clusterIP": "10.1.0.1", "ipFamilies": ["IPv4"]}
MIRRORED = one(SERVICES, {"clusterIP": "10.1.0.1"})


def with_ports(count: int, different: bool) -> Bodies:
    """A Service with a named port, whose number differs between Pods; or one with many named ports."""
    names = ["p"] if different else [f"p{each}" for each in range(count)]
    yield one(
        SERVICES, {**NAMED, "ports": [{"name": each, "port": 80, "targetPort": each} for each in names]}
    )
    for number in range(count if different else 1):
        resource, body = pod(f"x-{number}")
        ports = [{"name": each, "containerPort": 1000 + number + place} for place, each in enumerate(names)]
        body["spec"]["containers"] = [{"name": "c", "ports": ports}]
        yield resource, body


def slices(count: int, manager: str = "endpointslice-controller.k8s.io", **more: Any) -> Bodies:
    labels = {
        "kubernetes.io/service-name": "x",
        "endpointslice.kubernetes.io/managed-by": manager,
    }
    for each in range(count):
        metadata = meta(f"s-{each}", labels=labels, **owned(SERVICES))
        ports = [{"name": "p", "port": 1000 + each, "protocol": "TCP"}]
        yield (
            ENDPOINT_SLICES,
            {"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": [], **more},
        )


def spaced(count: int, odd: int = 2) -> str:
    return ",".join(str(each) for each in range(0, odd * count, odd))


def job(**spec: Any) -> tuple[Resource, Body]:
    return workload(JOBS, completionMode="Indexed", completions=100_000, parallelism=1, **spec)


def indexed_pods(count: int, phase: str) -> Bodies:
    for each in range(count):
        key = "batch.kubernetes.io/job-completion-index"
        metadata = {
            "annotations": {key: str(each)},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            **owned(JOBS),
        }
        yield pod(f"x-{each}", {"phase": phase}, **metadata)


def many(resource: Resource, count: int, **body: Any) -> Bodies:
    return [
        (resource, {"metadata": meta(f"m-{each}", **body.get("meta", {})), **body}) for each in range(count)
    ]


ROWS = [
    Row(
        "statefulset-controller",
        "replicas",
        lambda n: [workload(STATEFUL_SETS, replicas=n, podManagementPolicy="Parallel")],
        True,
    ),
    Row(
        "statefulset-controller",
        "ordinals",
        lambda n: [
            workload(STATEFUL_SETS, replicas=n, podManagementPolicy="Parallel", ordinals={"start": n})
        ],
        True,
    ),
    Row(
        "statefulset-controller",
        "Pods",
        lambda n: [workload(STATEFUL_SETS, replicas=n), *pods_of(STATEFUL_SETS, n)],
    ),
    Row(
        "statefulset-controller",
        "finished Pods",
        lambda n: [
            workload(STATEFUL_SETS, replicas=n, podManagementPolicy="Parallel"),
            *(pod(f"x-{each}", {"phase": "Failed"}, **owned(STATEFUL_SETS)) for each in range(n)),
        ],
    ),
    Row(
        "statefulset-controller",
        "surplus Pods",
        lambda n: [
            workload(STATEFUL_SETS, replicas=0, podManagementPolicy="Parallel"),
            *pods_of(STATEFUL_SETS, n),
        ],
    ),
    Row(
        "statefulset-controller",
        "revisions",
        lambda n: [
            workload(STATEFUL_SETS),
            *(
                (
                    CONTROLLER_REVISIONS,
                    {"metadata": meta(f"r-{each}", labels=LABELS, **owned(STATEFUL_SETS)), "revision": each},
                )
                for each in range(n)
            ),
        ],
    ),
    Row("replicaset-controller", "replicas", lambda n: [workload(REPLICA_SETS, replicas=n)], True),
    Row(
        "replicaset-controller",
        "surplus Pods",
        lambda n: [workload(REPLICA_SETS, replicas=0), *pods_of(REPLICA_SETS, n)],
    ),
    Row(
        "replication-controller",
        "replicas",
        lambda n: [one(REPLICATION_CONTROLLERS, {"selector": LABELS, "template": TEMPLATE, "replicas": n})],
        True,
    ),
    Row(
        "replication-controller",
        "orphans",
        lambda n: [
            one(REPLICATION_CONTROLLERS, {"selector": LABELS, "template": TEMPLATE}),
            *(pod(f"x-{each}") for each in range(n)),
        ],
    ),
    Row(
        "deployment-controller",
        "replicas and surge",
        lambda n: [
            workload(
                DEPLOYMENTS,
                replicas=n,
                strategy={
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "100%"},
                },
            )
        ],
        True,
    ),
    Row(
        "deployment-controller",
        "ReplicaSets",
        lambda n: [
            workload(DEPLOYMENTS, replicas=n, revisionHistoryLimit=1),
            *(
                (
                    REPLICA_SETS,
                    {
                        "metadata": meta(f"x-{each}", labels=LABELS, **owned(DEPLOYMENTS)),
                        "spec": {
                            "replicas": each % 2,
                            "selector": SELECTOR,
                            "template": {
                                **TEMPLATE,
                                "metadata": {"labels": LABELS, "annotations": {"n": str(each)}},
                            },
                        },
                    },
                )
                for each in range(n)
            ),
        ],
    ),
    Row(
        "deployment-controller",
        "history of revisions",
        lambda n: [
            workload(DEPLOYMENTS),
            (
                REPLICA_SETS,
                {
                    "metadata": meta(
                        "x-1",
                        labels=LABELS,
                        annotations={
                            "deployment.kubernetes.io/revision": "1",
                            "deployment.kubernetes.io/revision-history": ",".join("1" * 20 * n),
                        },
                        **owned(DEPLOYMENTS),
                    ),
                    "spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE},
                },
            ),
            (
                REPLICA_SETS,
                {
                    "metadata": meta(
                        "x-2",
                        labels=LABELS,
                        annotations={"deployment.kubernetes.io/revision": "7"},
                        **owned(DEPLOYMENTS),
                    ),
                    "spec": {"replicas": 1, "selector": SELECTOR, "template": {"spec": {}}},
                },
            ),
        ],
    ),
    Row(
        "job-controller",
        "parallelism and completions",
        lambda n: [workload(JOBS, completions=n, parallelism=n)],
        True,
    ),
    Row(
        "job-controller",
        "indexes",
        lambda n: [
            workload(JOBS, completionMode="Indexed", completions=n, parallelism=n, backoffLimitPerIndex=n)
        ],
        True,
    ),
    Row(
        "job-controller",
        "succeeded indexes of a policy",
        lambda n: [
            (
                JOBS,
                {
                    **job(successPolicy={"rules": [{"succeededIndexes": spaced(n)}]})[1],
                    "status": {"completedIndexes": spaced(n, 3)},
                },
            )
        ],
    ),
    Row(
        "job-controller",
        "failed Pods of indexes",
        lambda n: [
            (
                JOBS,
                {
                    **job(backoffLimitPerIndex=1)[1],
                    "status": {"completedIndexes": spaced(n), "failedIndexes": spaced(n, 3)},
                },
            ),
            *indexed_pods(n, "Failed"),
        ],
    ),
    Row(
        "job-controller",
        "succeeded Pods of indexes",
        lambda n: [
            (JOBS, {**job()[1], "status": {"completedIndexes": spaced(n)}}),
            *indexed_pods(n, "Succeeded"),
        ],
    ),
    Row(
        "job-orphan-pod-controller",
        "finalizers",
        lambda n: [
            pod("x", finalizers=["batch.kubernetes.io/job-tracking", *(f"f{each}" for each in range(n))])
        ],
    ),
    Row(
        "ttl-after-finished-controller",
        "conditions",
        lambda n: [
            one(
                JOBS,
                {"ttlSecondsAfterFinished": 1},
                {
                    "conditions": [
                        *({"type": f"t{each}", "status": "True"} for each in range(n)),
                        {"type": "Complete", "status": "True", "lastTransitionTime": TIME},
                    ]
                },
            )
        ],
    ),
    Row(
        "cronjob-controller",
        "Jobs",
        lambda n: [
            one(
                CRON_JOBS,
                {"schedule": "* * * * *", "jobTemplate": {}, "successfulJobsHistoryLimit": 1},
                {
                    "lastScheduleTime": "2025-12-31T23:59:00Z",
                    "active": [{"uid": f"uid-x-{each}", "name": f"x-{each}"} for each in range(n)],
                },
            ),
            *(
                (
                    JOBS,
                    {
                        "metadata": meta(f"x-{each}", **owned(CRON_JOBS)),
                        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
                    },
                )
                for each in range(n)
            ),
        ],
    ),
    Row(
        "cronjob-controller",
        "minutes since the last start",
        lambda n: [
            one(
                CRON_JOBS,
                {"schedule": "* * * 8-12,1-4 *", "jobTemplate": {}},
                {"lastScheduleTime": f"{2025 - n // 100}-04-30T23:58:00Z"},
            )
        ],
    ),
    Row("endpoints-controller", "Pods", lambda n: [SERVICE, *(pod(f"x-{each}") for each in range(n))]),
    Row("endpoints-controller", "named ports of a Pod", partial(with_ports, different=False)),
    Row("endpointslice-controller", "Pods", lambda n: [SERVICE, *(pod(f"x-{each}") for each in range(n))]),
    Row(
        "endpointslice-controller",
        "Pods with ports of their own",
        lambda n: [*with_ports(n, True), *slices(n)],
    ),
    Row("endpointslice-controller", "named ports of a Pod", partial(with_ports, different=False)),
    Row("endpointslice-controller", "empty slices", lambda n: [SERVICE, pod("x-1"), *slices(n)]),
    Row(
        "endpointslice-mirroring-controller",
        "subsets",
        lambda n: [
            MIRRORED,
            (
                ENDPOINTS,
                {
                    "metadata": meta("x"),
                    "subsets": [
                        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1000 + each}]}
                        for each in range(n)
                    ],
                },
            ),
            *slices(n, "endpointslicemirroring-controller.k8s.io"),
        ],
    ),
    Row(
        "disruption-controller",
        "disrupted Pods",
        lambda n: [
            one(
                POD_DISRUPTION_BUDGETS,
                {"selector": SELECTOR, "minAvailable": 1},
                {
                    "disruptedPods": {
                        f"x-{each}": TIME if each % 2 else "2026-01-01T00:00:00Z" for each in range(n)
                    }
                },
            ),
            *(pod(f"x-{each}") for each in range(n)),
        ],
    ),
    Row(
        "disruption-controller",
        "minAvailable",
        lambda n: [one(POD_DISRUPTION_BUDGETS, {"selector": SELECTOR, "minAvailable": n}), pod("x-1")],
        True,
    ),
    Row(
        "disruption-target-controller",
        "conditions",
        lambda n: [pod("x", {"conditions": [{"type": f"t{each}", "status": "True"} for each in range(n)]})],
    ),
    Row(
        "daemonset-controller",
        "nodes",
        lambda n: [
            workload(
                DAEMON_SETS,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            ),
            *many(NODES, n, status={}, spec={}),
            *(
                (
                    PODS,
                    {
                        "metadata": meta(f"x-{each}", labels=LABELS, **owned(DAEMON_SETS)),
                        "spec": {"nodeName": f"m-{each}"},
                        "status": {"phase": "Running"},
                    },
                )
                for each in range(n)
            ),
        ],
    ),
    Row(
        "node-lifecycle-controller",
        "Pods",
        lambda n: [
            one(
                NODES,
                {"taints": [{"key": f"k{each}", "effect": "NoSchedule"} for each in range(n)]},
                {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": TIME}]},
            ),
            (NAMESPACES, {"metadata": meta(SPACE)}),
            *(pod(f"x-{each}") for each in range(n)),
        ],
    ),
    Row(
        "taint-eviction-controller",
        "tolerations and taints",
        lambda n: [
            (
                NODES,
                {
                    "metadata": meta("n"),
                    "spec": {"taints": [{"key": f"k{each}", "effect": "NoSchedule"} for each in range(n)]},
                },
            ),
            (
                PODS,
                {
                    "metadata": meta("x"),
                    "spec": {
                        "nodeName": "n",
                        "tolerations": [{"key": f"k{each}", "operator": "Exists"} for each in range(n)],
                    },
                },
            ),
        ],
    ),
    Row(
        "certificatesigningrequest-cleaner-controller",
        "conditions",
        lambda n: [
            one(
                CERTIFICATE_SIGNING_REQUESTS,
                {},
                {"conditions": [{"type": "Approved", "lastUpdateTime": TIME} for _ in range(n)]},
            )
        ],
    ),
    Row(
        "legacy-serviceaccount-token-cleaner-controller",
        "Pods",
        lambda n: [
            (
                SECRETS,
                {
                    "metadata": meta("x", annotations={"kubernetes.io/service-account.name": "a"})
                    | {"creationTimestamp": "2020-01-01T00:00:00Z"},
                    "type": "kubernetes.io/service-account-token",
                },
            ),
            (
                SERVICE_ACCOUNTS,
                {
                    "metadata": meta("a"),
                    "secrets": [*({"name": f"s{each}"} for each in range(n)), {"name": "x"}],
                },
            ),
            (
                CONFIG_MAPS,
                {
                    "metadata": meta(
                        "kube-apiserver-legacy-service-account-token-tracking", namespace="kube-system"
                    ),
                    "data": {"since": "2020-01-01"},
                },
            ),
            *(pod(f"x-{each}") for each in range(n)),
        ],
    ),
    Row(
        "token-cleaner-controller",
        "data",
        lambda n: [
            (
                SECRETS,
                {
                    "metadata": meta("x"),
                    "type": "bootstrap.kubernetes.io/token",
                    "data": {f"k{each}": "eA==" for each in range(n)},
                },
            )
        ],
    ),
    Row(
        "serviceaccount-controller",
        "labels of a Namespace",
        lambda n: [(NAMESPACES, {"metadata": meta("x", labels={f"k{each}": "v" for each in range(n)})})],
    ),
    Row(
        "root-ca-certificate-publisher-controller",
        "data of the ConfigMap",
        lambda n: [
            (NAMESPACES, {"metadata": meta("x")}),
            (
                CONFIG_MAPS,
                {
                    "metadata": meta("kube-root-ca.crt", namespace="x"),
                    "data": {f"k{each}": "v" for each in range(n)},
                },
            ),
        ],
    ),
    Row(
        "network-controller",
        "Services",
        lambda n: [
            (NAMESPACES, {"metadata": meta("kube-system")}),
            *many(SERVICES, n, meta={"namespace": "kube-system"}, spec={}),
        ],
        name="default",
    ),
    Row(
        "service-cidr-controller",
        "conditions",
        lambda n: [
            one(
                SERVICE_CIDRS,
                {},
                {"conditions": [{"type": f"t{each}", "status": "True"} for each in range(n)]},
            )
        ],
    ),
    Row(
        "persistentvolume-binder-controller",
        "volumes",
        lambda n: [
            one(
                PERSISTENT_VOLUME_CLAIMS,
                {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            ),
            *many(
                PERSISTENT_VOLUMES,
                n,
                spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
                status={"phase": "Available"},
            ),
            *many(STORAGE_CLASSES, n),
        ],
    ),
    Row(
        "persistentvolume-binder-controller",
        "consumers",
        lambda n: [
            one(PERSISTENT_VOLUME_CLAIMS, {"storageClassName": "m-0"}),
            *many(STORAGE_CLASSES, 1, volumeBindingMode="WaitForFirstConsumer", provisioner="p"),
            *(
                (
                    PODS,
                    {
                        "metadata": meta(f"x-{each}"),
                        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
                    },
                )
                for each in range(n)
            ),
        ],
    ),
    Row(
        "persistentvolume-controller",
        "access modes",
        lambda n: [one(PERSISTENT_VOLUMES, {"accessModes": ["ReadWriteOnce"] * n})],
    ),
    Row(
        "persistentvolume-protection-controller",
        "finalizers",
        lambda n: [
            one(PERSISTENT_VOLUMES, {}, {"phase": "Bound"}, finalizers=[f"f{each}" for each in range(n)])
        ],
    ),
    Row(
        "volumeattributesclass-protection-controller",
        "claims",
        lambda n: [
            (
                VOLUME_ATTRIBUTES_CLASSES,
                {"metadata": meta("x", finalizers=["kubernetes.io/vac-protection"], deletionTimestamp=TIME)},
            ),
            (NAMESPACES, {"metadata": meta(SPACE)}),
            *many(PERSISTENT_VOLUME_CLAIMS, n, spec={"volumeAttributesClassName": "other"}),
        ],
    ),
    Row(
        "ephemeral-volume-controller",
        "volumes of a Pod",
        lambda n: [
            (
                PODS,
                {
                    "metadata": meta("x"),
                    "spec": {
                        "volumes": [
                            {"name": f"v{each}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
                            for each in range(n)
                        ]
                    },
                },
            )
        ],
    ),
    Row(
        "resourceclaim-controller",
        "claims of a Pod",
        lambda n: [
            (
                PODS,
                {
                    "metadata": meta("x"),
                    "spec": {
                        "resourceClaims": [
                            {"name": f"c{each}", "resourceClaimTemplateName": "t"} for each in range(n)
                        ]
                    },
                    "status": {"phase": "Running"},
                },
            ),
            (RESOURCE_CLAIM_TEMPLATES, {"metadata": meta("t"), "spec": {"spec": {}}}),
        ],
    ),
]


CONTROLLERS = {
    each.name: each
    for each in all_controllers(cast("Client", SimpleNamespace()), "authority", cast("Any", print))
}


def reconcile(row: Row, size: int) -> Callable[[], object]:
    controller = CONTROLLERS[row.controller]
    assert isinstance(controller, Controller)
    seen = view(row.bodies(size))
    key = Key(TENANT, SPACE if controller.watches[0].resource.namespaced else "", row.name)

    def work() -> None:
        plan = controller.plan(seen, key)
        if plan.finish is not None:
            list(plan.finish(seen, Outcome([])))

    return work


def compare(small: Callable[[], object], large: Callable[[], object], most: float) -> None:
    work_of(small)  # Caches are filled, and modules imported.
    one, other = work_of(small), work_of(large)
    assert other.steps <= most * one.steps + 200
    assert other.size <= most * one.size + 80_000


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.controller}: {row.what}")
def test_a_reconcile_costs_at_most_in_proportion(row: Row) -> None:
    sizes, most = (NUMBERS, 1.1) if row.numbers else ((SMALL, SMALL * TIMES), LINEAR)
    compare(reconcile(row, sizes[0]), reconcile(row, sizes[1]), most)


# ---- Parts of controllers that also call the API server, or of plans ---------------------------


def history(count: int) -> rates.Memory:
    return rates.Memory(ups=[rates.Sample(1, NOW) for _ in range(count)])


def policies(count: int) -> Callable[[], object]:
    rules = Rules(policies=tuple(Policy("Pods", 1, 60) for _ in range(count)))
    return lambda: rates._limited_by_rates(  # the whole decision takes a Spec
        Spec(max_replicas=2**31 - 1), Behavior(scale_up=rules), history(count), 1, 10, NOW
    )


def circle(count: int) -> Callable[[], object]:
    """Objects that wait for each other in a circle, as one that is deleted in the foreground sees them."""
    graph = Graph()
    for each in range(count):
        owner = {**owned(PODS, f"x-{(each + 1) % count}")["ownerReferences"][0], "blockOwnerDeletion": True}
        body = {
            "metadata": meta(
                f"x-{each}", finalizers=[FOREGROUND], deletionTimestamp=TIME, ownerReferences=[owner]
            )
        }
        list(graph.change(PODS, Change(None, placed(parse(encode(body)), TENANT))))
    found = graph.get(Uid(TENANT, "uid-x-0"))
    assert isinstance(found, Node)
    return lambda: garbage_collector_plan.decide(graph, found, {})


def intervals(count: int) -> indexes.Intervals:
    return tuple((each, each) for each in range(0, 2 * count, 2))


PARTS: list[tuple[str, str, Callable[[int], Callable[[], object]]]] = [
    ("horizontal-pod-autoscaler-controller", "policies", policies),
    ("horizontal-pod-autoscaler-controller", "window", lambda n: partial(seconds, "1" * n * 100)),
    ("garbage-collector-controller", "circle", circle),
    ("job-controller", "common indexes", lambda n: partial(indexes.common, intervals(n), intervals(n))),
    ("job-controller", "long numbers", lambda n: partial(indexes.parse, "9" * 5000 + f",0-{n}", 10)),
]


@pytest.mark.parametrize("part", [pytest.param(part, id=f"{name}: {what}") for name, what, part in PARTS])
def test_a_part_costs_at_most_in_proportion(part: Callable[[int], Callable[[], object]]) -> None:
    compare(part(SMALL), part(SMALL * TIMES), LINEAR)


def test_a_circle_above_the_largest_costs_no_more() -> None:
    largest = garbage_collector_plan.LARGEST_CIRCLE
    compare(circle(largest + 1), circle(2 * largest), 1.1)


REQUESTS = {
    "namespace-controller": "asks for and deletes collections; its loop over Pods rests",
    "resourcequota-controller": "reads pages of 50 objects; its loop over them rests",
    "pod-garbage-collector-controller": "looks at all Pods of a tenant once in 20 s; its loop rests",
    "certificatesigningrequest-approving-controller": "reads one request",
    "certificatesigningrequest-signing-controller": "reads one request",
    "serviceaccount-token-controller": "reads one Secret and its account",
    "persistentvolumeclaim-protection-controller": "looks for the first Pod that uses a claim which is being deleted",
    "validatingadmissionpolicy-status-controller": "checks the expressions of one policy in a thread",
    "clusterrole-aggregation-controller": "rests; see its own tests",
}
"""Controllers without a row, and what one reconcile of them costs."""


def test_every_controller_has_a_row() -> None:
    rows = {row.controller for row in ROWS} | {controller for controller, _, _ in PARTS}
    assert rows - {"garbage-collector-controller"} <= CONTROLLERS.keys()
    assert CONTROLLERS.keys() - rows == REQUESTS.keys() - rows
