"""Default FlowSchemas and PriorityLevelConfigurations, as in kube-apiserver 1.36. Pure.

Source of the values: apiserver `pkg/apis/flowcontrol/bootstrap`.
"""

from collections.abc import Iterator
from typing import Any

GROUP = "flowcontrol.apiserver.k8s.io"

_UPDATED = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ANYTHING = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> dict[str, Any]:
    return {"kind": "User", "user": {"name": name}}


def _resource(group: str, resources: list[str], verbs: list[str], *, cluster: bool = False) -> dict[str, Any]:
    rule = {"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]}
    return rule | {"clusterScope": True} if cluster else rule


_ACCOUNTS = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}
_EVERYBODY = [_group("system:unauthenticated"), _group("system:authenticated")]
_MANAGER, _SCHEDULER = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
_LEASES = _resource("coordination.k8s.io", ["leases"], ["get", "create", "update"])
_NODE_RULES = [
    _resource("", ["nodes", "nodes/status"], ["*"], cluster=True),
    _resource("coordination.k8s.io", ["leases"], ["*"]),
]
_PROBES = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}

FLOWS: tuple[tuple[str, str, int, str, list[dict[str, Any]], dict[str, Any]], ...] = (
    ("catch-all", "catch-all", 10000, "ByUser", _EVERYBODY, _ANYTHING),
    ("exempt", "exempt", 1, "", [_group("system:masters")], _ANYTHING),
    ("global-default", "global-default", 9900, "ByUser", _EVERYBODY, _ANYTHING),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", [_MANAGER], _ANYTHING),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", [_SCHEDULER], _ANYTHING),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", [_ACCOUNTS], _ANYTHING),
    ("probes", "exempt", 2, "", _EVERYBODY, _PROBES),
    ("service-accounts", "workload-low", 9000, "ByUser", [_group("system:serviceaccounts")], _ANYTHING),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        [_MANAGER, _SCHEDULER, _ACCOUNTS],
        {"resourceRules": [_LEASES]},
    ),
    (
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        [_group("system:nodes")],
        {"resourceRules": _NODE_RULES},
    ),
    ("system-nodes", "system", 500, "ByUser", [_group("system:nodes")], _ANYTHING),
)
"""Name, priority level, precedence, distinguisher, subjects, rules."""

LEVELS: tuple[tuple[str, int, int, tuple[int, int, int] | None], ...] = (
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, (128, 6, 50)),
    ("leader-election", 10, 0, (16, 4, 50)),
    ("node-high", 40, 25, (64, 6, 50)),
    ("system", 30, 33, (64, 6, 50)),
    ("workload-high", 40, 50, (128, 6, 50)),
    ("workload-low", 100, 90, (128, 6, 50)),
)
"""Name, shares, percentage that may be lent, and (queues, hand size, queue length) unless it rejects."""


def objects(now: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (plural, object) of each."""
    for name, level, precedence, distinguisher, subjects, rules in FLOWS:
        spec: dict[str, Any] = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [{"subjects": subjects, **rules}],
        }
        if distinguisher:
            spec["distinguisherMethod"] = {"type": distinguisher}
        message = (
            f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        )
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": now,
            "reason": "Found",
            "message": message,
        }
        yield (
            "flowschemas",
            {"metadata": _metadata(name), "spec": spec, "status": {"conditions": [condition]}},
        )
    exempt = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}
    yield "prioritylevelconfigurations", {"metadata": _metadata("exempt"), "spec": exempt, "status": {}}
    for name, shares, lendable, queues in LEVELS:
        response: dict[str, Any] = {"type": "Reject"}
        if queues:
            queuing = dict(zip(("queues", "handSize", "queueLengthLimit"), queues, strict=True))
            response = {"type": "Queue", "queuing": queuing}
        limited = {
            "nominalConcurrencyShares": shares,
            "limitResponse": response,
            "lendablePercent": lendable,
        }
        level_spec = {"type": "Limited", "limited": limited}
        yield "prioritylevelconfigurations", {"metadata": _metadata(name), "spec": level_spec, "status": {}}


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "generation": 1, "annotations": _UPDATED}
