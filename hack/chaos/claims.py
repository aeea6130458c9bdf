"""Actions of users on volumes and devices, on Pods that use them, and on published classes."""

from typing import Any

from hack.chaos import specs
from hack.chaos.actions import Action
from hack.chaos.users import Users
from hack.testbed.classes import INGRESS, PRIORITY, RUNTIME

Json = dict[str, Any]

STORAGE = "fast"
"""A StorageClass that all super clusters publish."""
FEW_STORAGE = "rare"
"""A StorageClass that one super cluster publishes."""
FEW = 2
"""Number of load balancers of a namespace, which is less than a slice has."""
DEVICES = "gpu"
"""A DeviceClass that all super clusters publish."""


def put_claim(users: Users) -> None:
    """Create a claim to a volume, or enlarge it."""
    name = users.known("data")
    storage_class = users.random.choice((STORAGE, STORAGE, FEW_STORAGE))
    body = {"metadata": users.metadata(name), "spec": specs.volume_claim(storage_class, "64Mi")}
    users.put("persistentvolumeclaims", name, body, {"spec": specs.resources_of_claim("128Mi")})


def put_device_claim(users: Users) -> None:
    """Create a claim to a device. Its spec cannot change."""
    body = {"metadata": users.metadata(users.known("device")), "spec": specs.device_claim(DEVICES)}
    users.call("POST", users.path("resourceclaims"), body)


def put_device_template(users: Users) -> None:
    """Create a template of claims to devices."""
    body = {
        "metadata": users.metadata(users.known("devices")),
        "spec": {"metadata": users.metadata(""), "spec": specs.device_claim(DEVICES)},
    }
    users.call("POST", users.path("resourceclaimtemplates"), body)


def new_pod_with_volume(users: Users) -> None:
    """Create a Pod with one or two claims, which may not exist yet."""
    claims = {users.known("data") for _ in range(1 + users.pick(2))}
    spec = specs.pod(users.marker, claims=sorted(claims)) | _classes(users)
    users.call(
        "POST", users.path("pods"), {"metadata": users.metadata(users.known("database")), "spec": spec}
    )


def new_pod_with_device(users: Users) -> None:
    """Create a Pod that uses a claim to a device, or one from a template."""
    source = users.random.choice(
        (
            {"resourceClaimName": users.known("device")},
            {"resourceClaimTemplateName": users.known("devices")},
        )
    )
    spec = specs.pod(users.marker, devices=source)
    users.call("POST", users.path("pods"), {"metadata": users.metadata(users.known("trainer")), "spec": spec})


def put_stateful_set(users: Users) -> None:
    """Create a StatefulSet with a claim for each Pod, or scale it."""
    name = users.known("store")
    template = {
        "metadata": {**users.metadata(""), "labels": {"app": name}},
        "spec": specs.pod(users.marker, mounts="own"),
    }
    retention = users.random.choice(("Delete", "Retain"))
    spec = {
        "replicas": users.pick(3),
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": retention, "whenScaled": retention},
        "volumeClaimTemplates": [
            {"metadata": users.metadata("own"), "spec": specs.volume_claim(STORAGE, "64Mi")}
        ],
    }
    body = {"metadata": users.metadata(name), "spec": spec}
    users.put("statefulsets", name, body, {"spec": {"replicas": users.pick(3)}})


def put_balancer(users: Users) -> None:
    """Create a Service of type LoadBalancer and an Ingress of a published class."""
    name = f"front-{users.pick(FEW)}"
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec = {"ports": ports, "selector": {"app": users.known("app")}, "type": "LoadBalancer"}
    users.call("POST", users.path("services"), {"metadata": users.metadata(name), "spec": spec})
    host = f"{name}.{users.tenant}.example.org"
    rules = {"ingressClassName": INGRESS, "rules": [specs.rule(host, name)]}
    users.call("POST", users.path("ingresses"), {"metadata": users.metadata(name), "spec": rules})


def delete_pod_with_claim(users: Users) -> None:
    name = users.known(users.random.choice(("database", "trainer")))
    users.call("DELETE", f"{users.path('pods', name)}?gracePeriodSeconds={users.pick(3)}")


def delete_claim(users: Users) -> None:
    """Delete a claim, which stays while Pods use it, or what makes claims."""
    kind, stem = users.random.choice(
        (
            ("persistentvolumeclaims", "data"),
            ("resourceclaims", "device"),
            ("resourceclaimtemplates", "devices"),
            ("statefulsets", "store"),
            ("services", "front"),
            ("ingresses", "front"),
        )
    )
    users.call("DELETE", f"{users.path(kind, users.known(stem))}?propagationPolicy=Background")


def _classes(users: Users) -> Json:
    """Return fields of a Pod that name published classes, or none."""
    return users.random.choice(
        ({}, {"priorityClassName": PRIORITY}, {"runtimeClassName": RUNTIME}),
    )


ACTIONS: tuple[tuple[Action, int], ...] = (
    (put_claim, 8),
    (put_device_claim, 4),
    (put_device_template, 2),
    (new_pod_with_volume, 8),
    (new_pod_with_device, 6),
    (put_stateful_set, 5),
    (put_balancer, 4),
    (delete_pod_with_claim, 8),
    (delete_claim, 6),
)
"""The actions of users, with their relative frequencies."""
