"""Defaults of Pods and pod templates. Pure.

Source: `SetDefaults_*` and `+default` markers of Kubernetes' `pkg/apis/core/v1`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.core.resources import default_pod_resources
from vcsync.apimachinery.validation.fields import Object, items, part
from vcsync.patterns.linear import linear

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.[a-zA-Z0-9-]+)*(?::[0-9]+)?"
_IMAGE = linear(
    rf"(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_LONGEST_IMAGE = 1024
_LONGEST_REPOSITORY = 255


def image_tag(image: str) -> str:
    """Return an image's tag: `latest` if it has neither tag nor digest, empty if the reference is invalid."""
    match = _IMAGE.fullmatch(image) if len(image) <= _LONGEST_IMAGE else None
    if match is None or len(_repository(match["domain"], match["path"])) > _LONGEST_REPOSITORY:
        return ""
    return match["tag"] or ("" if match["digest"] else "latest")


def _repository(domain: str | None, path: str) -> str:
    """Return an image's repository. A first part that is no registry address belongs to the name."""
    if not domain:
        return f"library/{path}"
    if domain == "localhost" or {".", ":"} & {*domain} or domain != domain.lower():
        return path
    return f"{domain}/{path}"


def _pull_policy(image: str) -> str:
    return "Always" if image_tag(image) == "latest" else "IfNotPresent"


def pod(found: Object) -> None:
    """Set the defaults of a Pod."""
    _drop_annotations(found)
    _addresses(part(found, "status"))
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    for key in ("containers", "initContainers"):
        for each in items(spec, key):
            _requests_from_limits(each)
    default_pod_resources(spec)
    fill(spec, {"enableServiceLinks": True})
    if spec.get("hostNetwork"):
        _host_ports(spec)
    pod_spec(spec)
    if (spec["terminationGracePeriodSeconds"] or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


_INIT_CONTAINERS = tuple(
    f"pod.{version}.kubernetes.io/init-{what}"
    for version in ("alpha", "beta")
    for what in ("containers", "container-statuses")
)


def _drop_annotations(found: Object) -> None:
    """Remove annotations that stood for init containers before Kubernetes 1.8 (`dropInitContainerAnnotations`)."""
    annotations = part(found, "metadata", "annotations")
    if annotations and not annotations.keys().isdisjoint(_INIT_CONTAINERS):
        kept = {name: each for name, each in annotations.items() if name not in _INIT_CONTAINERS}
        if kept:
            found["metadata"]["annotations"] = kept
        else:
            del found["metadata"]["annotations"]


def _addresses(status: Object) -> None:
    """Fill in `podIP` from `podIPs` or the other way round, since clients may know only one of them."""
    one, listed = status.get("podIP"), items(status, "podIPs")
    if one and (not listed or listed[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif listed and not one and listed[0].get("ip"):
        status["podIP"] = listed[0]["ip"]


def _requests_from_limits(container: Object) -> None:
    limits = part(container, "resources", "limits")
    if limits:
        resources = container["resources"]
        requests = dict(resources.get("requests") or {})
        for name, quantity in limits.items():
            requests.setdefault(name, quantity)
        resources["requests"] = requests


def _host_ports(spec: Object) -> None:
    for key in ("containers", "initContainers"):
        for container in items(spec, key):
            for port in items(container, "ports"):
                if port.get("containerPort"):
                    fill(port, {"hostPort": port["containerPort"]})


def template(found: Object | None) -> None:
    """Set the defaults of a pod template."""
    if not isinstance(found, dict):
        return
    _drop_annotations(found)
    if isinstance(found.get("spec"), dict):
        pod_spec(found["spec"])


def pod_spec(spec: Object) -> None:
    """Set the defaults that Pods and templates share."""
    fill(
        spec,
        {
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
        },
    )
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in items(spec, "volumes"):
        _volume(volume)
    for key in _CONTAINER_LISTS:
        for container in items(spec, key):
            _container(container)


def _container(found: Object) -> None:
    fill(
        found,
        {
            "imagePullPolicy": _pull_policy(str(found.get("image", ""))),
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        },
    )
    for port in items(found, "ports"):
        fill(port, {"protocol": "TCP"})
    for variable in items(found, "env"):
        source = part(variable, "valueFrom")
        _field_reference(source)
        if isinstance(source.get("fileKeyRef"), dict):
            fill(source["fileKeyRef"], {"optional": False})
        _divisor(source)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(found.get(probe), dict):
            _probe(found[probe])
    for hook in ("postStart", "preStop"):
        _http_get(part(found, "lifecycle", hook))


def _probe(found: Object) -> None:
    fill(found, {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    _http_get(found)
    if isinstance(found.get("grpc"), dict):
        fill(found["grpc"], {"service": ""})


def _http_get(found: Object) -> None:
    if isinstance(found.get("httpGet"), dict):
        fill(found["httpGet"], {"path": "/", "scheme": "HTTP"})


def _field_reference(source: Object) -> None:
    if isinstance(source.get("fieldRef"), dict):
        fill(source["fieldRef"], {"apiVersion": "v1"})


def _divisor(source: Object) -> None:
    if isinstance(source.get("resourceFieldRef"), dict):
        fill(source["resourceFieldRef"], {"divisor": "0"})


def _downward(found: Object) -> None:
    for item in items(found, "items"):
        _field_reference(item)
        _divisor(item)


def _projected(found: Object) -> None:
    fill(found, {"defaultMode": 0o644})
    for source in items(found, "sources"):
        _downward(part(source, "downwardAPI"))
        if isinstance(source.get("serviceAccountToken"), dict):
            fill(source["serviceAccountToken"], {"expirationSeconds": 3600})


def _filled(**defaults: Any) -> Callable[[Object], None]:
    def apply(found: Object) -> None:
        fill(found, defaults)

    return apply


def _downward_volume(found: Object) -> None:
    fill(found, {"defaultMode": 0o644})
    _downward(found)


def _image_volume(found: Object) -> None:
    fill(found, {"pullPolicy": _pull_policy(str(found.get("reference", "")))})


def _ephemeral(found: Object) -> None:
    claim = part(found, "volumeClaimTemplate", "spec")
    if claim:
        fill(claim, {"volumeMode": "Filesystem"})


AZURE_DISK = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
ISCSI = {"iscsiInterface": "default"}
RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SOURCES: dict[str, Callable[[Object], None]] = {
    "azureDisk": _filled(**AZURE_DISK),
    "configMap": _filled(defaultMode=0o644),
    "downwardAPI": _downward_volume,
    "ephemeral": _ephemeral,
    "hostPath": _filled(type=""),
    "image": _image_volume,
    "iscsi": _filled(**ISCSI),
    "projected": _projected,
    "rbd": _filled(**RBD),
    "scaleIO": _filled(storageMode="ThinProvisioned", fsType="xfs"),
    "secret": _filled(defaultMode=0o644),
}


def _volume(found: Object) -> None:
    if not any(isinstance(value, dict) for value in found.values()):
        found["emptyDir"] = {}
    for key, apply in _SOURCES.items():
        if isinstance(found.get(key), dict):
            apply(found[key])


def containers(spec: Object, *, ephemeral: bool = False) -> Iterator[tuple[str, int, Object]]:
    """Yield (name of the list, index, container), in the order in which upstream visits them."""
    for key in (
        ("initContainers", "containers", "ephemeralContainers")
        if ephemeral
        else ("initContainers", "containers")
    ):
        for index, each in enumerate(items(spec, key)):
            yield key, index, each
