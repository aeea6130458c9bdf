"""Actions of users on Pods, what these mount, and how they are reached."""

from collections.abc import Callable
from typing import Any

from hack.chaos import specs
from hack.chaos.users import MAX_OF_A_KIND, Users

Json = dict[str, Any]
Action = Callable[[Users], None]

IMAGES = ("registry.example/app:1", "registry.example/app:2", "registry.example/app:3")
MAX_NAMESPACES = 4
CONTESTED_HOSTS = ("shop.example.com", "www.shop.example.com", "*.shop.example.com")
"""Hosts that users of several tenants want. The wildcard overlaps with the second one."""
HOLDER = "example.com/holder"
"""Finalizer of Pods that users hold."""
MOST_TRIES = 5
"""Times that a user removes it from a Pod that changes meanwhile."""


def new_namespace(users: Users) -> None:
    if len(users.namespaces) >= MAX_NAMESPACES:
        return
    again = users.left and users.pick(2)
    name = users.random.choice(users.left) if again else users.new_name("ns")
    metadata = users.metadata(name)
    metadata["annotations"]["scheduler.virtualcluster.io/slice"] = '{"cpu":"1","memory":"1Gi"}'
    if users.call("POST", "/api/v1/namespaces", {"metadata": metadata}) == 201:
        users.namespaces.append(name)
        users.left = [each for each in users.left if each != name]
        body = {"metadata": users.metadata("quota"), "spec": {"hard": _hard(users)}}
        users.call("POST", f"/api/v1/namespaces/{name}/resourcequotas", body)


def delete_namespace(users: Users) -> None:
    if len(users.namespaces) > 1:
        name = users.namespaces.pop(users.random.randrange(len(users.namespaces)))
        users.left.append(name)
        users.call("DELETE", f"/api/v1/namespaces/{name}")


def change_quota(users: Users) -> None:
    users.call("PATCH", users.path("resourcequotas", "quota"), {"spec": {"hard": _hard(users)}})


def replace_quota(users: Users) -> None:
    path = users.path("resourcequotas")
    users.call("DELETE", f"{path}/quota")
    users.call("POST", path, {"metadata": users.metadata("quota"), "spec": {"hard": _hard(users)}})


def put_config_map(users: Users) -> None:
    name = users.known("cm")
    body = {"metadata": users.metadata(name), "data": {"text": users.text()}}
    users.put("configmaps", name, body, {"data": {"text": users.text(), f"k{users.pick(3)}": users.text()}})


def put_secret(users: Users) -> None:
    name = users.known("secret")
    body = {
        "metadata": users.metadata(name),
        "type": "example.com/thing",
        "data": {"secret": users.data()},
    }
    users.put("secrets", name, body, {"data": {"secret": users.data()}})


def put_account(users: Users) -> None:
    name = users.known("sa")
    body = {"metadata": users.metadata(name), "imagePullSecrets": [{"name": users.known("secret")}]}
    users.put("serviceaccounts", name, body, {"imagePullSecrets": [{"name": users.known("secret")}]})


def put_service(users: Users) -> None:
    name = users.known("svc")
    ports = [{"name": "http", "port": 80 + users.pick(3), "targetPort": 8080}]
    spec: Json = {"ports": ports, "selector": {"app": users.known("app")}}
    if users.pick(4) == 0:
        spec["clusterIP"] = "None"
    users.put("services", name, {"metadata": users.metadata(name), "spec": spec}, {"spec": {"ports": ports}})


def put_endpoints(users: Users) -> None:
    """Create a Service without selector, and its addresses."""
    name = users.known("ext")
    spec = {"ports": [{"port": 5432}]}
    users.call("POST", users.path("services"), {"metadata": users.metadata(name), "spec": spec})
    subsets = [{"addresses": [{"ip": f"192.0.2.{1 + users.pick(200)}"}], "ports": [{"port": 5432}]}]
    body = {"metadata": users.metadata(name), "subsets": subsets}
    users.put("endpoints", name, body, {"subsets": subsets})


def put_endpoint_slice(users: Users) -> None:
    """Create addresses of a Service, which may have a selector or not exist."""
    name = users.known("by-hand")
    endpoints = [{"addresses": [f"192.0.2.{1 + users.pick(200)}"]}]
    metadata = users.metadata(name)
    service = users.known(users.random.choice(("ext", "ext", "svc")))
    labels = {**metadata.get("labels", {}), "kubernetes.io/service-name": service}
    body = {"metadata": {**metadata, "labels": labels}, "addressType": "IPv4", "endpoints": endpoints}
    users.put("endpointslices", name, {**body, "ports": [{"port": 5432}]}, {"endpoints": endpoints})


def put_network_policy(users: Users) -> None:
    name = users.known("policy")
    selectors = specs.namespace_selectors(users.namespace(), f"t{users.pick(3)}")
    peer: Json = {"namespaceSelector": users.random.choice(selectors)}
    if users.pick(2):
        peer["podSelector"] = {"matchLabels": {"app": users.known("app")}}
    spec = {"podSelector": {"matchLabels": {"app": users.known("app")}}, "ingress": [{"from": [peer]}]}
    body = {"metadata": users.metadata(name), "spec": spec}
    users.put("networkpolicies", name, body, {"spec": {"ingress": spec["ingress"]}})


def put_ingress(users: Users) -> None:
    """Create an Ingress with a host of the tenant's own, or with one that other tenants want as well."""
    number = users.pick(MAX_OF_A_KIND)
    name = f"site-{number}"
    hosts = (*CONTESTED_HOSTS, f"{name}.{users.tenant}.example.com")
    spec = {"rules": [specs.rule(hosts[min(number, len(hosts) - 1)], users.known("svc"))]}
    users.put("ingresses", name, {"metadata": users.metadata(name), "spec": spec}, {"spec": spec})


def put_budget(users: Users) -> None:
    name = users.known("budget")
    selector = {"matchLabels": {"app": users.known("app")}}
    spec = {"selector": selector, "minAvailable": users.random.choice((0, 1, "50%"))}
    body = {"metadata": users.metadata(name), "spec": spec}
    users.put("poddisruptionbudgets", name, body, {"spec": {"minAvailable": users.pick(3)}})


def put_deployment(users: Users) -> None:
    name = users.known("app")
    template = {"metadata": {**users.metadata(""), "labels": {"app": name}}, "spec": _pod_spec(users)}
    spec = {
        "replicas": users.pick(4),
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    body = {"metadata": users.metadata(name), "spec": spec}
    users.put("deployments", name, body, {"spec": {"replicas": users.pick(4)}})


def put_plain_set(users: Users) -> None:
    """Create a StatefulSet without claims, or scale it: its Pods have fixed names, and nothing but those binds them."""
    name = users.known("queue")
    spec = {
        "replicas": users.pick(4),
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {**users.metadata(""), "labels": {"app": name}}, "spec": _pod_spec(users)},
    }
    body = {"metadata": users.metadata(name), "spec": spec}
    users.put("statefulsets", name, body, {"spec": {"replicas": users.pick(4)}})


def roll_deployment(users: Users) -> None:
    image = {"name": "main", "image": users.random.choice(IMAGES)}
    path = users.path("deployments", users.known("app"))
    status, found = users.ask("GET", path)
    if status == 200:
        containers = found["spec"]["template"]["spec"]["containers"]
        patch = {"spec": {"template": {"spec": {"containers": [{**containers[0], **image}]}}}}
        users.call("PATCH", path, patch)


def new_pod(users: Users) -> None:
    metadata = users.metadata(users.known("pod"))
    if users.pick(6) == 0:
        metadata["finalizers"] = [HOLDER]
    users.call("POST", users.path("pods"), {"metadata": metadata, "spec": _pod_spec(users)})


def let_pod_go(users: Users) -> None:
    """Remove the finalizer from a Pod, if it has one."""
    _let_go(users, users.path("pods", users.known("pod")))


def evict_pod(users: Users) -> None:
    name = users.known("pod")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": users.metadata(name)}
    users.call("POST", f"{users.path('pods', name)}/eviction", body)


def delete_many(users: Users) -> None:
    """Delete all Pods, ConfigMaps or Secrets of a namespace with some label."""
    kind = users.random.choice(("pods", "configmaps", "secrets"))
    grace = "&gracePeriodSeconds=0" if users.pick(2) else ""
    users.call("DELETE", f"{users.path(kind)}?labelSelector=team%3Dt{users.pick(3)}{grace}")


def change_pod(users: Users) -> None:
    labels = {f"l{users.pick(3)}": users.random.choice((None, "a", "b"))}
    users.call("PATCH", users.path("pods", users.known("pod")), {"metadata": {"labels": labels}})


def replace_pod(users: Users) -> None:
    """Immediately replace an object by one with the same name and another UID."""
    path = users.path("pods", users.known("pod"))
    users.call("DELETE", f"{path}?gracePeriodSeconds=0")
    new_pod(users)


def delete_pod(users: Users) -> None:
    name = users.known(users.random.choice(("pod", "pod", "missing")))
    users.call("DELETE", f"{users.path('pods', name)}?gracePeriodSeconds={1 + users.pick(3)}")


def delete_something(users: Users) -> None:
    kind, stem = users.random.choice(
        (
            ("configmaps", "cm"),
            ("secrets", "secret"),
            ("serviceaccounts", "sa"),
            ("services", "svc"),
            ("services", "ext"),
            ("endpoints", "ext"),
            ("endpointslices", "by-hand"),
            ("deployments", "app"),
            ("statefulsets", "queue"),
            ("networkpolicies", "policy"),
            ("ingresses", "site"),
            ("poddisruptionbudgets", "budget"),
        )
    )
    users.call("DELETE", f"{users.path(kind, users.known(stem))}?propagationPolicy=Background")


def write_our_labels(users: Users) -> None:
    """Write labels and annotations on the tenant's objects that must have no effect on others."""
    super_id = users.random.choice((*users.super_ids, "no-such-cluster"))
    key = "scheduler.virtualcluster.io/superCluster"
    patches: list[tuple[str, Json]] = [
        (users.path("pods", users.known("pod")), {"labels": {key: super_id}}),
        (users.path("pods", users.known("pod")), {"labels": {key: None}}),
        (
            f"/api/v1/namespaces/{users.namespace()}",
            {"annotations": {"scheduler.virtualcluster.io/placements": f'{{"{super_id}":7}}'}},
        ),
        (
            users.path("configmaps", users.known("cm")),
            {
                "labels": {"tenancy.x-k8s.io/controlled": "true"},
                "annotations": {"tenancy.x-k8s.io/uid": "x"},
            },
        ),
    ]
    path, metadata = users.random.choice(patches)
    users.call("PATCH", path, {"metadata": metadata})


def let_all_go(users: Users) -> None:
    _, found = users.ask("GET", "/api/v1/pods")
    for pod in found.get("items", ()):
        metadata = pod["metadata"]
        if HOLDER in metadata.get("finalizers", ()):
            _let_go(users, f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")


def _let_go(users: Users, path: str) -> None:
    """Remove the users' own finalizer from a Pod, if it has it. Others stay: a copy may run."""
    for _ in range(MOST_TRIES):
        status, found = users.ask("GET", path)
        present = found["metadata"].get("finalizers") or [] if status == 200 else []
        if HOLDER not in present:
            return
        kept = [each for each in present if each != HOLDER]
        metadata = {"finalizers": kept, "resourceVersion": found["metadata"]["resourceVersion"]}
        if users.call("PATCH", path, {"metadata": metadata}) != 409:
            return


def _pod_spec(users: Users) -> Json:
    container: Json = {
        "name": "main",
        "image": users.random.choice(IMAGES),
        "resources": {"requests": {"cpu": f"{50 * (1 + users.pick(6))}m", "memory": "64Mi"}},
        "env": [{"name": "MARKER", "value": users.marker}],
    }
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 1 + users.pick(3)}
    volume: Json | None = users.random.choice(
        (
            None,
            {"name": "v", "configMap": {"name": users.known("cm"), "optional": True}},
            {"name": "v", "secret": {"secretName": users.known("secret")}},
        )
    )
    if volume:
        spec["volumes"] = [volume]
        container["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    return spec


def _hard(users: Users) -> Json:
    amount = 1 + users.pick(6)
    return {"requests.cpu": str(amount), "requests.memory": f"{amount}Gi"}


ACTIONS: tuple[tuple[Action, int], ...] = (
    (new_namespace, 3),
    (delete_namespace, 1),
    (change_quota, 4),
    (replace_quota, 1),
    (put_config_map, 12),
    (put_secret, 10),
    (put_account, 5),
    (put_service, 8),
    (put_endpoints, 4),
    (put_endpoint_slice, 3),
    (put_network_policy, 4),
    (put_ingress, 5),
    (put_budget, 3),
    (put_deployment, 12),
    (put_plain_set, 5),
    (roll_deployment, 4),
    (new_pod, 12),
    (change_pod, 8),
    (replace_pod, 6),
    (delete_pod, 8),
    (let_pod_go, 6),
    (evict_pod, 3),
    (delete_many, 2),
    (delete_something, 12),
    (write_our_labels, 3),
)
"""The actions of users, with their relative frequencies."""
