"""Computes the files and environment that a kubelet gives a Pod's containers, from the objects of its cluster."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from pool_kit import Json, items, read

from hack.testbed import Cluster

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class SuperClusterToken(AssertionError):
    """The kubelet would have mounted a token of its own cluster."""


def files(cluster: Cluster, pod: Json, container: str = "") -> dict[str, bytes]:
    """Return path -> content of the files in a container, from all volumes whose content the API describes.

    Args:
        cluster: in which the Pod runs.
        pod: the Pod in that cluster.
        container: name; empty: the first one.

    Raises:
        SuperClusterToken: a token of `cluster` is among them.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    found = {}
    for mount in _container(pod, container).get("volumeMounts", ()):
        for path, content in _content(cluster, pod, volumes[mount["name"]]).items():
            found[f"{mount['mountPath'].rstrip('/')}/{path}"] = content
    return found


def environment(cluster: Cluster, pod: Json, container: str = "") -> dict[str, str]:
    """Return the environment of a container's process."""
    found = dict(_service_links(cluster, pod))
    described = _container(pod, container)
    for source in described.get("envFrom", ()):
        if reference := source.get("configMapRef"):
            found |= _config_map(cluster, pod, reference["name"])
        if reference := source.get("secretRef"):
            found |= {key: value.decode() for key, value in _secret(cluster, pod, reference["name"]).items()}
    for entry in described.get("env", ()):
        found[entry["name"]] = _value(cluster, pod, entry, found)
    return found


def _container(pod: Json, name: str) -> Json:
    spec = pod["spec"]
    every = [*spec["containers"], *spec.get("initContainers", ()), *spec.get("ephemeralContainers", ())]
    return next(each for each in every if not name or each["name"] == name)


# --- Volumes


def _content(cluster: Cluster, pod: Json, volume: Json) -> dict[str, bytes]:
    if source := volume.get("configMap"):
        return _chosen(source, _texts(_config_map(cluster, pod, source["name"])))
    if source := volume.get("secret"):
        return _chosen(source, _secret(cluster, pod, source["secretName"]))
    if source := volume.get("downwardAPI"):
        return _downward(pod, source)
    merged: dict[str, bytes] = {}
    for source in volume.get("projected", {}).get("sources", ()):
        merged |= _projection(cluster, pod, source)
    return merged


def _projection(cluster: Cluster, pod: Json, source: Json) -> dict[str, bytes]:
    if "serviceAccountToken" in source:
        raise SuperClusterToken(f"{cluster.name}: Pod {pod['metadata']['name']} projects {source}")
    if part := source.get("configMap"):
        return _chosen(part, _texts(_config_map(cluster, pod, part["name"])))
    if part := source.get("secret"):
        return _chosen(part, _secret(cluster, pod, part["name"]))
    if part := source.get("downwardAPI"):
        return _downward(pod, part)
    raise AssertionError(f"unknown projection {source}")


def _chosen(source: Json, content: dict[str, bytes]) -> dict[str, bytes]:
    if not source.get("items"):
        return content
    return {item["path"]: content[item["key"]] for item in source["items"] if item["key"] in content}


def _downward(pod: Json, source: Json) -> dict[str, bytes]:
    return {
        item["path"]: _field(pod, item["fieldRef"]["fieldPath"]).encode()
        for item in source.get("items", ())
        if "fieldRef" in item
    }


def _config_map(cluster: Cluster, pod: Json, name: str) -> dict[str, str]:
    found = read(cluster, f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{name}")
    return (found or {}).get("data") or {}


def _secret(cluster: Cluster, pod: Json, name: str) -> dict[str, bytes]:
    found = read(cluster, f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{name}")
    return {key: base64.b64decode(value) for key, value in ((found or {}).get("data") or {}).items()}


def _texts(values: dict[str, str]) -> dict[str, bytes]:
    return {key: value.encode() for key, value in values.items()}


# --- Environment


def _service_links(cluster: Cluster, pod: Json) -> Iterator[tuple[str, str]]:
    """Yield variables of the API server's Service, and of the namespace's Services if the Pod wants service links."""
    own = pod["metadata"]["namespace"] if pod["spec"].get("enableServiceLinks", True) else ""
    for namespace in ("default", own):
        for service in items(cluster, f"/api/v1/namespaces/{namespace}/services") if namespace else ():
            if namespace == "default" and service["metadata"]["name"] != "kubernetes":
                continue
            yield from _links(service)


def _links(service: Json) -> Iterator[tuple[str, str]]:
    name = service["metadata"]["name"].upper().replace("-", "_")
    address = service["spec"].get("clusterIP")
    if not address or address == "None":
        return
    yield f"{name}_SERVICE_HOST", address
    for position, port in enumerate(service["spec"]["ports"]):
        number, protocol = port["port"], port["protocol"].lower()
        url = f"{protocol}://{address}:{number}"
        if position == 0:
            yield f"{name}_SERVICE_PORT", str(number)
            yield f"{name}_PORT", url
        if port.get("name"):
            yield f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}", str(number)
        prefix = f"{name}_PORT_{number}_{protocol.upper()}"
        yield prefix, url
        yield f"{prefix}_PROTO", protocol
        yield f"{prefix}_PORT", str(number)
        yield f"{prefix}_ADDR", address


def _value(cluster: Cluster, pod: Json, entry: Json, so_far: dict[str, str]) -> str:
    source: Json = entry.get("valueFrom") or {}
    if not source:
        return _expanded(entry.get("value", ""), so_far)
    if reference := source.get("fieldRef"):
        return _field(pod, reference["fieldPath"])
    if reference := source.get("configMapKeyRef"):
        return _config_map(cluster, pod, reference["name"]).get(reference["key"], "")
    if reference := source.get("secretKeyRef"):
        return _secret(cluster, pod, reference["name"]).get(reference["key"], b"").decode()
    raise AssertionError(f"unknown source {entry}")


def _expanded(value: str, known: dict[str, str]) -> str:
    """Replace `$(NAME)` by the variable if it is known, and `$$` by `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match["name"], match[0])

    return re.sub(r"\$\$|\$\((?P<name>[^)]*)\)", replacement, value)


def _field(pod: Json, path: str) -> str:
    """Return a field of the Pod as in the downward API."""
    subscript = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
    if subscript:
        return str((pod["metadata"].get(subscript[1]) or {}).get(subscript[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        values = pod["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{values[key]}"' for key in sorted(values))
    found: Any = pod
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return str(found)
