"""The users of one tenant: a seeded stream of creates, updates, scalings and deletes through the tenant's plain API."""

import base64
import http.client
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from hack.chaos import specs
from hack.chaos.answers import is_expected
from hack.testbed.cluster import Cluster, Session

Json = dict[str, Any]

MARKER_ANNOTATION = "example.com/marker"
IMAGES = ("registry.example/app:1", "registry.example/app:2", "registry.example/app:3")
MAX_NAMESPACES = 4
MAX_OF_A_KIND = 6
GROUPS = {
    "deployments": "/apis/apps/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
}
"""Path of the API group of each kind that is not in the core group."""
CONTESTED_HOSTS = ("shop.example.com", "www.shop.example.com", "*.shop.example.com")
"""Hosts that users of several tenants want. The wildcard overlaps with the second one."""
HOLDER = "example.com/holder"
"""Finalizer of Pods that users hold."""
PATIENCE = 30.0


class Churn:
    """The users of one tenant.

    Args:
        cluster: the tenant's control plane, without a proxy, because the users are not under test.
        seed: determines the actions, as long as the answers are the same.
        pause: maximum pause between two actions, in seconds.
        super_ids: of the super clusters, for users who write our labels.
        outages: whether the control plane is sometimes killed, so that users must expect no answer.
        store_lost: whether its etcd is sometimes unavailable, so that users must expect 5xx.
    """

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        *,
        pause: float,
        super_ids: tuple[str, ...],
        outages: bool = False,
        store_lost: bool = False,
    ) -> None:
        self._store_lost = store_lost
        self._cluster = cluster
        self._random = random.Random(f"{seed}/{cluster.name}")  # noqa: S311
        self._pause = pause
        self._super_ids = super_ids
        self._outages = outages
        self.marker = f"marker-{cluster.name}-{self._random.randrange(16**8):08x}"
        """Text in every object of these users, which no object of others may contain."""
        self.done: Counter[str] = Counter()
        """Actions by name."""
        self.refused: list[str] = []
        """Answers that no user should get."""
        self._namespaces: list[str] = []
        self._left: list[str] = []
        """Names of deleted namespaces, which may be created again."""
        self._count = 0
        self._session: Session | None = None

    def run(self, stop: threading.Event) -> None:
        """Act until stopped, then remove all finalizers. Blocks."""
        with self._cluster.session(PATIENCE) as self._session:
            for _ in range(2):
                self._do(Churn.new_namespace)
            while not stop.wait(self._random.uniform(0, self._pause)):
                self.act()
            self._do(Churn._let_all_go)

    def act(self) -> None:
        """Do one action, chosen at random by weight."""
        actions = [action for action, _ in ACTIONS]
        action = self._random.choices(actions, [weight for _, weight in ACTIONS])[0]
        if not self._namespaces:
            action = Churn.new_namespace
        self.done[action.__name__] += 1
        self._do(action)

    def _do(self, action: Callable[["Churn"], None]) -> None:
        try:
            action(self)
        except (OSError, http.client.HTTPException) as error:
            if not self._outages:
                self.refused.append(f"{action.__name__}: {error!r}")

    # --- actions of users

    def new_namespace(self) -> None:
        if len(self._namespaces) >= MAX_NAMESPACES:
            return
        again = self._left and self._pick(2)
        name = self._random.choice(self._left) if again else self._name("ns")
        metadata = self._metadata(name)
        metadata["annotations"]["scheduler.virtualcluster.io/slice"] = '{"cpu":"1","memory":"1Gi"}'
        if self._call("POST", "/api/v1/namespaces", {"metadata": metadata}) == 201:
            self._namespaces.append(name)
            self._left = [each for each in self._left if each != name]
            body = {"metadata": self._metadata("quota"), "spec": {"hard": self._hard()}}
            self._call("POST", f"/api/v1/namespaces/{name}/resourcequotas", body)

    def delete_namespace(self) -> None:
        if len(self._namespaces) > 1:
            name = self._namespaces.pop(self._random.randrange(len(self._namespaces)))
            self._left.append(name)
            self._call("DELETE", f"/api/v1/namespaces/{name}")

    def change_quota(self) -> None:
        self._call("PATCH", self._path("resourcequotas", "quota"), {"spec": {"hard": self._hard()}})

    def replace_quota(self) -> None:
        path = self._path("resourcequotas")
        self._call("DELETE", f"{path}/quota")
        self._call("POST", path, {"metadata": self._metadata("quota"), "spec": {"hard": self._hard()}})

    def put_config_map(self) -> None:
        name = self._known("cm")
        body = {"metadata": self._metadata(name), "data": {"text": self._text()}}
        self._put(
            "configmaps", name, body, {"data": {"text": self._text(), f"k{self._pick(3)}": self._text()}}
        )

    def put_secret(self) -> None:
        name = self._known("secret")
        body = {
            "metadata": self._metadata(name),
            "type": "example.com/thing",
            "data": {"secret": self._data()},
        }
        self._put("secrets", name, body, {"data": {"secret": self._data()}})

    def put_account(self) -> None:
        name = self._known("sa")
        body = {"metadata": self._metadata(name), "imagePullSecrets": [{"name": self._known("secret")}]}
        self._put("serviceaccounts", name, body, {"imagePullSecrets": [{"name": self._known("secret")}]})

    def put_service(self) -> None:
        name = self._known("svc")
        ports = [{"name": "http", "port": 80 + self._pick(3), "targetPort": 8080}]
        spec: Json = {"ports": ports, "selector": {"app": self._known("app")}}
        if self._pick(4) == 0:
            spec["clusterIP"] = "None"
        self._put(
            "services", name, {"metadata": self._metadata(name), "spec": spec}, {"spec": {"ports": ports}}
        )

    def put_endpoints(self) -> None:
        """Create a Service without selector, and its addresses."""
        name = self._known("ext")
        spec = {"ports": [{"port": 5432}]}
        self._call("POST", self._path("services"), {"metadata": self._metadata(name), "spec": spec})
        subsets = [{"addresses": [{"ip": f"192.0.2.{1 + self._pick(200)}"}], "ports": [{"port": 5432}]}]
        body = {"metadata": self._metadata(name), "subsets": subsets}
        self._put("endpoints", name, body, {"subsets": subsets})

    def put_endpoint_slice(self) -> None:
        """Create addresses of a Service, which may have a selector or not exist."""
        name = self._known("by-hand")
        endpoints = [{"addresses": [f"192.0.2.{1 + self._pick(200)}"]}]
        metadata = self._metadata(name)
        service = self._known(self._random.choice(("ext", "ext", "svc")))
        labels = {**metadata.get("labels", {}), "kubernetes.io/service-name": service}
        body = {"metadata": {**metadata, "labels": labels}, "addressType": "IPv4", "endpoints": endpoints}
        self._put("endpointslices", name, {**body, "ports": [{"port": 5432}]}, {"endpoints": endpoints})

    def put_network_policy(self) -> None:
        name = self._known("policy")
        selectors = specs.namespace_selectors(self._namespace(), f"t{self._pick(3)}")
        peer: Json = {"namespaceSelector": self._random.choice(selectors)}
        if self._pick(2):
            peer["podSelector"] = {"matchLabels": {"app": self._known("app")}}
        spec = {"podSelector": {"matchLabels": {"app": self._known("app")}}, "ingress": [{"from": [peer]}]}
        body = {"metadata": self._metadata(name), "spec": spec}
        self._put("networkpolicies", name, body, {"spec": {"ingress": spec["ingress"]}})

    def put_ingress(self) -> None:
        """Create an Ingress with a host of the tenant's own, or with one that other tenants want as well."""
        number = self._pick(MAX_OF_A_KIND)
        name = f"site-{number}"
        hosts = (*CONTESTED_HOSTS, f"{name}.{self._cluster.name}.example.com")
        spec = {"rules": [specs.rule(hosts[min(number, len(hosts) - 1)], self._known("svc"))]}
        self._put("ingresses", name, {"metadata": self._metadata(name), "spec": spec}, {"spec": spec})

    def put_budget(self) -> None:
        name = self._known("budget")
        selector = {"matchLabels": {"app": self._known("app")}}
        spec = {"selector": selector, "minAvailable": self._random.choice((0, 1, "50%"))}
        body = {"metadata": self._metadata(name), "spec": spec}
        self._put("poddisruptionbudgets", name, body, {"spec": {"minAvailable": self._pick(3)}})

    def put_deployment(self) -> None:
        name = self._known("app")
        template = {"metadata": {**self._metadata(""), "labels": {"app": name}}, "spec": self._pod_spec()}
        spec = {
            "replicas": self._pick(4),
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        body = {"metadata": self._metadata(name), "spec": spec}
        self._put("deployments", name, body, {"spec": {"replicas": self._pick(4)}})

    def roll_deployment(self) -> None:
        image = {"name": "main", "image": self._random.choice(IMAGES)}
        path = self._path("deployments", self._known("app"))
        status, found = self._ask("GET", path)
        if status == 200:
            containers = found["spec"]["template"]["spec"]["containers"]
            patch = {"spec": {"template": {"spec": {"containers": [{**containers[0], **image}]}}}}
            self._call("PATCH", path, patch)

    def new_pod(self) -> None:
        metadata = self._metadata(self._known("pod"))
        if self._pick(6) == 0:
            metadata["finalizers"] = [HOLDER]
        self._call("POST", self._path("pods"), {"metadata": metadata, "spec": self._pod_spec()})

    def let_pod_go(self) -> None:
        """Remove the finalizer from a Pod, if it has one."""
        self._call("PATCH", self._path("pods", self._known("pod")), {"metadata": {"finalizers": None}})

    def evict_pod(self) -> None:
        name = self._known("pod")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": self._metadata(name)}
        self._call("POST", f"{self._path('pods', name)}/eviction", body)

    def delete_many(self) -> None:
        """Delete all Pods, ConfigMaps or Secrets of a namespace with some label."""
        kind = self._random.choice(("pods", "configmaps", "secrets"))
        grace = "&gracePeriodSeconds=0" if self._pick(2) else ""
        self._call("DELETE", f"{self._path(kind)}?labelSelector=team%3Dt{self._pick(3)}{grace}")

    def change_pod(self) -> None:
        labels = {f"l{self._pick(3)}": self._random.choice((None, "a", "b"))}
        self._call("PATCH", self._path("pods", self._known("pod")), {"metadata": {"labels": labels}})

    def replace_pod(self) -> None:
        """Immediately replace an object by one with the same name and another UID."""
        path = self._path("pods", self._known("pod"))
        self._call("DELETE", f"{path}?gracePeriodSeconds=0")
        self.new_pod()

    def delete_pod(self) -> None:
        name = self._known(self._random.choice(("pod", "pod", "missing")))
        self._call("DELETE", f"{self._path('pods', name)}?gracePeriodSeconds={1 + self._pick(3)}")

    def delete_something(self) -> None:
        kind, stem = self._random.choice(
            (
                ("configmaps", "cm"),
                ("secrets", "secret"),
                ("serviceaccounts", "sa"),
                ("services", "svc"),
                ("services", "ext"),
                ("endpoints", "ext"),
                ("endpointslices", "by-hand"),
                ("deployments", "app"),
                ("networkpolicies", "policy"),
                ("ingresses", "site"),
                ("poddisruptionbudgets", "budget"),
            )
        )
        self._call("DELETE", f"{self._path(kind, self._known(stem))}?propagationPolicy=Background")

    def write_our_labels(self) -> None:
        """Write labels and annotations on the tenant's objects that must have no effect on others."""
        super_id = self._random.choice((*self._super_ids, "no-such-cluster"))
        key = "scheduler.virtualcluster.io/superCluster"
        patches: list[tuple[str, Json]] = [
            (self._path("pods", self._known("pod")), {"labels": {key: super_id}}),
            (self._path("pods", self._known("pod")), {"labels": {key: None}}),
            (
                f"/api/v1/namespaces/{self._namespace()}",
                {"annotations": {"scheduler.virtualcluster.io/placements": f'{{"{super_id}":7}}'}},
            ),
            (
                self._path("configmaps", self._known("cm")),
                {
                    "labels": {"tenancy.x-k8s.io/controlled": "true"},
                    "annotations": {"tenancy.x-k8s.io/uid": "x"},
                },
            ),
        ]
        path, metadata = self._random.choice(patches)
        self._call("PATCH", path, {"metadata": metadata})

    def _let_all_go(self) -> None:
        _, found = self._ask("GET", "/api/v1/pods")
        for pod in found.get("items", ()):
            metadata = pod["metadata"]
            if HOLDER in metadata.get("finalizers", ()):
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                self._call("PATCH", path, {"metadata": {"finalizers": None}})

    # --- contents of objects

    def _pod_spec(self) -> Json:
        container: Json = {
            "name": "main",
            "image": self._random.choice(IMAGES),
            "resources": {"requests": {"cpu": f"{50 * (1 + self._pick(6))}m", "memory": "64Mi"}},
            "env": [{"name": "MARKER", "value": self.marker}],
        }
        spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 1 + self._pick(3)}
        volume: Json | None = self._random.choice(
            (
                None,
                {"name": "v", "configMap": {"name": self._known("cm"), "optional": True}},
                {"name": "v", "secret": {"secretName": self._known("secret")}},
            )
        )
        if volume:
            spec["volumes"] = [volume]
            container["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        return spec

    def _hard(self) -> Json:
        amount = 1 + self._pick(6)
        return {"requests.cpu": str(amount), "requests.memory": f"{amount}Gi"}

    def _metadata(self, name: str) -> Json:
        metadata: Json = {
            "annotations": {MARKER_ANNOTATION: self.marker},
            "labels": {"team": f"t{self._pick(3)}"},
        }
        return {**metadata, "name": name} if name else metadata

    def _text(self) -> str:
        self._count += 1
        return f"{self.marker} {self._count}"

    def _data(self) -> str:
        return base64.b64encode(self._text().encode()).decode()

    def _pick(self, count: int) -> int:
        return self._random.randrange(count)

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}-{self._count}"

    def _known(self, stem: str) -> str:
        """Return one of few names, so that updates and deletions concern existing objects."""
        return f"{stem}-{self._pick(MAX_OF_A_KIND)}"

    def _namespace(self) -> str:
        return self._random.choice(self._namespaces)

    def _path(self, kind: str, name: str = "") -> str:
        group = GROUPS.get(kind, "/api/v1")
        return f"{group}/namespaces/{self._namespace()}/{kind}" + (f"/{name}" if name else "")

    # --- calls

    def _put(self, kind: str, name: str, body: Json, patch: Json) -> None:
        """Create an object, or change the existing one."""
        collection = self._path(kind)
        if self._call("POST", collection, body) == 409:
            self._call("PATCH", f"{collection}/{name}", patch)

    def _call(self, method: str, path: str, body: Json | None = None) -> int:
        return self._ask(method, path, body)[0]

    def _ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, Any]:
        assert self._session is not None, "only while running"  # noqa: S101
        status, answer = self._session.call(method, path, body)
        if not is_expected(status, answer) and not (self._store_lost and status >= 500):
            self.refused.append(f"{method} {path}: {status} {answer}")
        return status, answer


ACTIONS: tuple[tuple[Callable[[Churn], None], int], ...] = (
    (Churn.new_namespace, 3),
    (Churn.delete_namespace, 1),
    (Churn.change_quota, 4),
    (Churn.replace_quota, 1),
    (Churn.put_config_map, 12),
    (Churn.put_secret, 10),
    (Churn.put_account, 5),
    (Churn.put_service, 8),
    (Churn.put_endpoints, 4),
    (Churn.put_endpoint_slice, 3),
    (Churn.put_network_policy, 4),
    (Churn.put_ingress, 5),
    (Churn.put_budget, 3),
    (Churn.put_deployment, 12),
    (Churn.roll_deployment, 4),
    (Churn.new_pod, 12),
    (Churn.change_pod, 8),
    (Churn.replace_pod, 6),
    (Churn.delete_pod, 8),
    (Churn.let_pod_go, 6),
    (Churn.evict_pod, 3),
    (Churn.delete_many, 2),
    (Churn.delete_something, 12),
    (Churn.write_our_labels, 3),
)
"""The actions of users, with their relative frequencies."""
