"""Attacks by controllers: small objects that make them do much."""

from collections.abc import Sequence
from typing import Any

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import (
    ANYTHING,
    APPS,
    BATCH,
    BOMBS,
    CORE,
    DEFAULT,
    DEFINITIONS,
    LABELS,
    RBAC,
    Attack,
    Row,
    after,
    bomb,
    definition,
    pod,
    post,
    posting,
    role,
    rules,
    template,
    workload,
)

MOST = 2**31 - 1
MERGE = {"Content-Type": "application/merge-patch+json"}
SETTLE = 3.0
SCALED = f"{APPS}/statefulsets"


def _stateful(**spec: Any) -> Attack:
    return posting(SCALED, workload("StatefulSet", serviceName="a", **spec))


def _patch(path: str, body: Any) -> Attack:
    return lambda door: [door.ask("PATCH", path, body, MERGE)]


def _job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"template": template(restartPolicy="Never"), **spec}}


def _cron(schedule: str, **spec: Any) -> dict[str, Any]:
    job = {"spec": {"template": template(restartPolicy="Never")}}
    return {"metadata": {"name": "a"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}}


def _last(schedule: str, last: str, **spec: Any) -> Attack:
    """Create a CronJob, and write when it last ran."""
    return after(
        posting(f"{BATCH}/cronjobs", _cron(schedule, **spec)),
        _patch(f"{BATCH}/cronjobs/a/status", {"status": {"lastScheduleTime": last}}),
    )


def _aggregated(count: int, each: int) -> Attack:
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    return lambda door: post(
        door,
        f"{RBAC}/clusterroles",
        *(role(f"a{n}", rules(each, f"v{n}"), labels=labels) for n in range(count)),
    )


def _scaler(metrics: Sequence[Any], target: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": target, "maxReplicas": MOST, "metrics": metrics, **spec},
    }


def _custom_scale(door: Door) -> list[Answer]:
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    status = {
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
    }
    made = definition({"spec": ANYTHING, "status": status}, subresources={"status": {}, "scale": scale})
    found = post(door, DEFINITIONS, made)
    for _ in range(100):
        if door.ask("GET", BOMBS).status == 200:
            break
    found += post(door, BOMBS, bomb(spec={"replicas": 1}))
    found.append(
        door.ask("PATCH", f"{BOMBS}/a/status", {"status": {"replicas": 1, "selector": "," * 20_000}}, MERGE)
    )
    target = {"apiVersion": "costly.example.com/v1", "kind": "Bomb", "name": "a"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    place = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    return found + post(door, place, _scaler([metric], target))


def _pods(count: int, ports: int = 1) -> Attack:
    listed = [{"name": f"p{n}", "containerPort": n + 1} for n in range(ports)]
    bodies = [pod(f"p{n}", containers=[{"name": "c", "image": "i", "ports": listed}]) for n in range(count)]
    return lambda door: post(door, f"{DEFAULT}/pods", *bodies)


def _services(count: int) -> Attack:
    spec = {"selector": LABELS, "ports": [{"name": f"p{n}", "port": n + 1} for n in range(50)]}
    return lambda door: post(
        door, f"{DEFAULT}/services", *({"metadata": {"name": f"s{n}"}, "spec": spec} for n in range(count))
    )


def _endpoints() -> dict[str, Any]:
    addresses = [{"ip": f"10.{a}.{b}.1"} for a in range(40) for b in range(25)]
    ports = [{"name": f"p{n}", "port": n + 1} for n in range(100)]
    return {"metadata": {"name": "s"}, "subsets": [{"addresses": addresses, "ports": ports}]}


def _owned(door: Door) -> list[Answer]:
    """Create a chain of owners, and delete its first object."""
    place, uid, found = f"{DEFAULT}/configmaps", "", []
    for number in range(200):
        owners = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": f"o{number - 1}",
                "uid": uid,
                "blockOwnerDeletion": True,
            }
        ]
        made = door.ask(
            "POST", place, {"metadata": {"name": f"o{number}", "ownerReferences": owners if uid else []}}
        )
        uid = made.json["metadata"]["uid"] if made.status == 201 else uid
        found.append(made)
    return [*found, door.ask("DELETE", f"{place}/o0", {"propagationPolicy": "Foreground"})]


def _owners(door: Door) -> list[Answer]:
    owners = [{"apiVersion": "v1", "kind": "Secret", "name": f"n{n}", "uid": f"u{n}"} for n in range(5_000)]
    return post(door, f"{DEFAULT}/configmaps", {"metadata": {"name": "o", "ownerReferences": owners}})


def _ending(door: Door) -> list[Answer]:
    found = post(door, f"{CORE}/namespaces", {"metadata": {"name": "ending"}})
    place = f"{CORE}/namespaces/ending/configmaps"
    found += post(door, place, *({"metadata": {"name": f"c{n}"}} for n in range(1_000)))
    return [*found, door.ask("DELETE", f"{CORE}/namespaces/ending")]


def _typed(door: Door) -> list[Answer]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["pods", "configmaps", "services"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": f"v{n}", "expression": "object.metadata.name + 'a'"} for n in range(50)],
        "validations": [{"expression": f"variables.v{n} != object.spec.x{n}"} for n in range(50)],
    }
    place = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    return post(door, place, *({"metadata": {"name": f"p{n}"}, "spec": spec} for n in range(10)))


def _volumes(door: Door) -> list[Answer]:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "2Gi"}},
    }
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
    found = post(
        door,
        f"{CORE}/persistentvolumes",
        *({"metadata": {"name": f"v{n}"}, "spec": volume} for n in range(400)),
    )
    return found + post(
        door,
        f"{DEFAULT}/persistentvolumeclaims",
        *({"metadata": {"name": f"c{n}"}, "spec": claim} for n in range(400)),
    )


def _budgets(door: Door) -> list[Answer]:
    body = {"selector": {"matchLabels": LABELS}, "maxUnavailable": "50%"}
    place = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    return post(door, place, *({"metadata": {"name": f"b{n}"}, "spec": body} for n in range(200)))


def _quotas(door: Door) -> list[Answer]:
    spec = {"hard": {"pods": "1000"}, "scopes": ["BestEffort"]}
    return post(
        door, f"{DEFAULT}/resourcequotas", *({"metadata": {"name": f"q{n}"}, "spec": spec} for n in range(90))
    )


ROWS = [
    Row(name, attack, settle=SETTLE)
    for name, attack in {
        "a StatefulSet of most replicas, at once": _stateful(replicas=MOST, podManagementPolicy="Parallel"),
        "a StatefulSet of most replicas, in order": _stateful(replicas=MOST),
        "a StatefulSet of most replicas from a number": _stateful(replicas=MOST, ordinals={"start": MOST}, podManagementPolicy="Parallel"),
        "a StatefulSet of most replicas and claims": _stateful(replicas=MOST, podManagementPolicy="Parallel", volumeClaimTemplates=[
            {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]),
        "a StatefulSet scaled down from most": after(
            _stateful(replicas=MOST, podManagementPolicy="Parallel"), _patch(f"{SCALED}/a", {"spec": {"replicas": 0}})),
        "a partition of most replicas": _stateful(
            replicas=MOST, podManagementPolicy="Parallel", updateStrategy={"rollingUpdate": {"partition": MOST}}),
        "a Deployment of most replicas": posting(f"{APPS}/deployments", workload(
            "Deployment", replicas=MOST, strategy={"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "100%"}})),
        "a ReplicaSet of most replicas": posting(f"{APPS}/replicasets", workload("ReplicaSet", replicas=MOST)),
        "a Job of most Pods at once": posting(f"{BATCH}/jobs", _job(parallelism=MOST)),
        "a Job of many indexes": posting(f"{BATCH}/jobs", _job(
            parallelism=100_000, completions=100_000, completionMode="Indexed", backoffLimitPerIndex=1, maxFailedIndexes=10_000)),
        "a Job of most indexes": posting(f"{BATCH}/jobs", _job(parallelism=10, completions=MOST, completionMode="Indexed")),
        "indexes that a tenant writes": after(
            posting(f"{BATCH}/jobs", _job(parallelism=10, completions=MOST, completionMode="Indexed")),
            _patch(f"{BATCH}/jobs/a/status", {"status": {"completedIndexes": ",".join(str(n) for n in range(0, 100_000, 2))}})),
        "a range of indexes that a tenant writes": after(
            posting(f"{BATCH}/jobs", _job(parallelism=10, completions=MOST, completionMode="Indexed")),
            _patch(f"{BATCH}/jobs/a/status", {"status": {"completedIndexes": f"0-{MOST - 1}"}})),
        "a schedule with a gap": _last("* * * 8-12,1-4 *", "2026-04-30T23:59:00Z"),
        "a schedule that never comes": _last("0 0 30 2 *", "1970-01-01T00:00:00Z"),
        "each minute since 1970": _last("* * * * *", "1970-01-01T00:00:00Z"),
        "each minute since 1970 in a zone": _last("* * * * *", "1970-01-01T00:00:00Z", timeZone="America/New_York"),
        "a leap day on a certain weekday": _last("0 0 29 2 1", "1970-01-01T00:00:00Z"),
        "roles that are aggregated": _aggregated(2, 5_000),
        "many roles that are aggregated": _aggregated(11, 1_000),
        "an autoscaler of a selector of commas": _custom_scale,
        "an autoscaler of many metrics": posting(
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", _scaler(
                [{"type": "External", "external": {"metric": {"name": f"m{n}"}, "target": {"type": "Value", "value": "1"}}} for n in range(2_000)],
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"})),
        "Services of many Pods and ports": after(_pods(150, 50), _services(40)),
        "Endpoints that are mirrored": after(
            posting(f"{DEFAULT}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
            posting(f"{DEFAULT}/endpoints", _endpoints)),
        "a chain of owners": _owned,
        "many owners": _owners,
        "a namespace of many objects, deleted": _ending,
        "types of many policies": _typed,
        "volumes and claims that do not fit": _volumes,
        "budgets of the same Pods": after(_pods(150), _budgets),
        "quotas of the same Pods": after(_pods(150), _quotas),
        "accounts by the hundred": lambda door: post(
            door, f"{DEFAULT}/serviceaccounts", *({"metadata": {"name": f"a{n}"}} for n in range(500))),
        "nodes by the hundred, and a Pod on each": after(
            lambda door: post(door, f"{CORE}/nodes", *({"metadata": {"name": f"n{n}"}} for n in range(200))),
            posting(f"{APPS}/daemonsets", workload("DaemonSet"))),
    }.items()
]  # fmt: skip
