"""Converts a tenant's Pod into the Pod to create in the super cluster."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from vcsync.api import names
from vcsync.kube.resources import PODS, PRIORITY_CLASSES
from vcsync.objects.envelope import Envelope
from vcsync.published import priority_class
from vcsync.syncer.kinds import metadata, pod_downward, pod_limits, token
from vcsync.syncer.kinds.plan import Dependency, TenantContext, TokenSource, View
from vcsync.syncer.kinds.pod_affinity import convert_constraints
from vcsync.syncer.kinds.pod_claims import claim_name, device_claim, generated_claims
from vcsync.syncer.kinds.runtime import runtime_class_dependency

DEFAULT_TOKEN_SECONDS: Final = 3600
"""Default lifetime of a projected token in seconds (core/v1 ServiceAccountTokenProjection)."""
MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""Largest size of all annotations of one object together (apimachinery ValidateAnnotations)."""
MAX_NAMESERVERS: Final = 3
"""Largest number of name servers in a Pod's dnsConfig (core validation MaxDNSNameservers)."""
QUOTA_RESOURCES: Final = ("cpu", "memory")
"""Resources that the super namespace's ResourceQuota limits, so that every container must request them."""
_ZERO: Final = "0"
ALWAYS: Final = "Always"
"""The pull policy by which a kubelet asks the registry at each start of a container."""

Json = dict[str, Any]


class Refused(Exception):
    """The Pod cannot be created in the super cluster. The text names the field and the remedy.

    Attributes:
        on: other objects whose changes may permit it.
    """

    def __init__(self, message: str, on: tuple[Dependency, ...] = ()) -> None:
        super().__init__(message)
        self.on = on


def convert(
    v: Envelope, spec: Json, context: TenantContext, view: View, *, node: str = ""
) -> tuple[Json, tuple[TokenSource, ...]]:
    """Return the Pod to create, and the tokens of its Secret.

    Args:
        v: the tenant's Pod.
        spec: its decoded spec, which becomes part of the result and must not be shared.
        context: the tenant's settings.
        view: the caches.
        node: the node in the super cluster, if the tenant may choose it and does; "" otherwise.

    Raises:
        Refused: the super cluster's API would refuse the Pod.
    """
    body_metadata = metadata.super_metadata(PODS, v, context)
    annotations: dict[str, str] = body_metadata["annotations"]
    body_metadata["labels"][names.CLUSTER] = context.key
    annotations |= pod_downward.extra_annotations(spec, v, context)
    tokens = _convert_volumes(spec, v, context)
    _convert_devices(spec, v)
    if tokens:
        account = spec.get("serviceAccountName") or "default"
        annotations[names.TOKENS] = token.encode_contents(account, tokens)
    _check_size(annotations)
    most = pod_limits.bounds(context, view.placement(v.namespace))
    own: Json = {}
    if spec.get("resources"):
        own = spec["resources"] = pod_limits.with_limits(spec["resources"], most, without=most)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        convert_container(container, v, context)
        container["resources"] = pod_limits.with_limits(
            with_requests(container.get("resources") or {}), most, without=own.get("limits") or ()
        )
    convert_constraints(spec, v.labels, context, view)
    _convert_dns(spec, v, context)
    _convert_fields(spec, context, view, node)
    body = {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": body_metadata, "spec": spec}
    return body, tokens


def _convert_devices(spec: Json, v: Envelope) -> None:
    """Name the copies of the Pod's ResourceClaims. The tenant's controller has made those of templates already."""
    if not spec.get("resourceClaims"):
        return
    generated = generated_claims(v)
    named = [(each["name"], device_claim(each, generated)) for each in spec["resourceClaims"]]
    spec["resourceClaims"] = [{"name": name, "resourceClaimName": claim} for name, claim in named if claim]


def token_sources(spec: Json, v: Envelope, context: TenantContext) -> tuple[TokenSource, ...]:
    """Return the tokens of a Pod's Secret. `spec` is changed and must not be used afterwards."""
    return _convert_volumes(spec, v, context)


def _check_size(annotations: Mapping[str, str]) -> None:
    size = sum(len(key) + len(value.encode(errors="replace")) for key, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        raise Refused(
            f"metadata.annotations and their copies for the downward API have {size} bytes, "
            f"{MAX_ANNOTATION_BYTES} are allowed; shorten metadata.annotations"
        )


# --- Pod-level fields ------------------------------------------------------------------------------------

_DROPPED: Final = (
    "nodeName",
    "schedulingGates",
    # The super cluster's admission sets these from its own PriorityClass and RuntimeClass.
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "overhead",
    # Not part of a new Pod: they are added by a subresource of an existing Pod.
    "ephemeralContainers",
)


def _convert_fields(spec: Json, context: TenantContext, view: View, node: str) -> None:
    priority = _priority_class(spec.get("priorityClassName", ""), context, view)
    if runtime_class := spec.get("runtimeClassName"):
        spec["runtimeClassName"] = _offered(runtime_class, context)
    for field in _DROPPED:
        spec.pop(field, None)
    if priority:
        spec["priorityClassName"] = priority
    if node:
        spec["nodeName"] = node
    spec["schedulerName"] = "default-scheduler"
    spec["automountServiceAccountToken"] = False
    if alias := _api_alias(context.api_host, context.cluster_domain):
        spec["hostAliases"] = [*(spec.get("hostAliases") or ()), alias]


def _priority_class(name: str, context: TenantContext, view: View) -> str:
    """Return the super cluster's PriorityClass for a tenant's: the operator maps it to one, or publishes one; "" for none."""
    if not name:
        return ""
    published = priority_class.may_use(view.super(PRIORITY_CLASSES, "", name))
    return context.priority_classes.get(name) or (name if published else "")


def _offered(runtime_class: str, context: TenantContext) -> str:
    name = context.runtime_classes.get(runtime_class, "")
    if not name:
        raise Refused(
            f"spec.runtimeClassName {runtime_class}: super cluster {context.super_id} publishes no RuntimeClass for it; "
            f"use one with the annotation {names.PUBLISHED_BY}, or ask the operator",
            (runtime_class_dependency(runtime_class),),
        )
    return name


@lru_cache(maxsize=1024)
def _api_alias(host: str, cluster_domain: str) -> Json | None:
    """Return the /etc/hosts entry for the tenant's API; None if Pods reach it by a DNS name."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    hostnames = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    if cluster_domain:
        hostnames.append(f"kubernetes.default.svc.{cluster_domain}")
    return {"ip": str(address), "hostnames": hostnames}


def _convert_dns(spec: Json, v: Envelope, context: TenantContext) -> None:
    """Use the tenant's name server for a Pod that uses cluster DNS, since the super cluster's knows other Services.

    Without a name server of the tenant here, the Pod uses the node's (`Default`).
    """
    if not uses_cluster_dns(spec, v.labels):
        return
    if not context.dns_nameserver:
        spec["dnsPolicy"] = "Default"
        return
    own: Json = spec.get("dnsConfig") or {}
    searches: list[str] = []
    if domain := context.cluster_domain:
        searches = [f"{v.namespace}.svc.{domain}", f"svc.{domain}", domain]
    options = {name: {"name": name, "value": value} for name, value in context.dns_options}
    options.update((option.get("name", ""), option) for option in own.get("options") or ())
    config: Json = {
        "nameservers": _unique([context.dns_nameserver, *(own.get("nameservers") or ())])[:MAX_NAMESERVERS],
        "options": list(options.values()),
    }
    if all_searches := _unique([*searches, *(own.get("searches") or ())]):
        config["searches"] = all_searches
    spec["dnsPolicy"] = "None"
    spec["dnsConfig"] = config


def uses_cluster_dns(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a Pod uses the name server of its cluster, which is the tenant's."""
    policy = spec.get("dnsPolicy", "ClusterFirst")
    clustered = policy == "ClusterFirstWithHostNet" or (
        policy == "ClusterFirst" and not spec.get("hostNetwork")
    )
    return clustered and labels.get(names.DISABLE_DNS_POLICY_MUTATION) != names.TRUE


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


# --- Volumes ---------------------------------------------------------------------------------------------


def _convert_volumes(spec: Json, v: Envelope, context: TenantContext) -> tuple[TokenSource, ...]:
    tokens: list[TokenSource] = []
    for volume in spec.get("volumes") or ():
        if (config_map := volume.get("configMap")) is not None:
            _rename_root_ca(config_map)
        elif (downward := volume.get("downwardAPI")) is not None:
            _convert_items(downward, context)
        elif (image := volume.get("image")) is not None and context.policy.image_pull == ALWAYS:
            image["pullPolicy"] = ALWAYS
        elif volume.get("ephemeral") is not None:
            # The tenant's claim is synced like any other. The super cluster's controller would make one of any class.
            volume["persistentVolumeClaim"] = {"claimName": claim_name(v.name, volume)}
            del volume["ephemeral"]
        elif (projected := volume.get("projected")) is not None:
            for source in projected.get("sources") or ():
                _convert_projection(source, v, context, tokens)
    return tuple(tokens)


def _convert_projection(
    source: Json,
    v: Envelope,
    context: TenantContext,
    tokens: list[TokenSource],
) -> None:
    if (config_map := source.get("configMap")) is not None:
        _rename_root_ca(config_map)
    if (downward := source.get("downwardAPI")) is not None:
        _convert_items(downward, context)
    if "serviceAccountToken" in source:
        wanted = source.pop("serviceAccountToken") or {}
        key = f"token-{len(tokens)}"
        seconds = wanted.get("expirationSeconds") or DEFAULT_TOKEN_SECONDS
        tokens.append(TokenSource(key, wanted.get("audience", ""), seconds))
        source["secret"] = {
            "name": token.secret_name(v.uid),
            "items": [{"key": key, "path": wanted.get("path", "token")}],
        }


def _rename_root_ca(reference: Json) -> None:
    """Refer to the tenant's root CA by its name in the super cluster, which has its own root CA under the usual name."""
    if reference.get("name") == names.ROOT_CA:
        reference["name"] = names.TENANT_ROOT_CA


def _convert_items(downward: Json, context: TenantContext) -> None:
    for item in downward.get("items") or ():
        if (reference := item.get("fieldRef")) is not None:
            reference["fieldPath"] = pod_downward.field_path(reference.get("fieldPath", ""), context)


# --- Containers ------------------------------------------------------------------------------------------


def convert_container(container: Json, v: Envelope, context: TenantContext) -> None:
    """Convert one container in place, but for its resources: API endpoint, downward API, root CA and pull policy."""
    if context.policy.image_pull == ALWAYS:
        container["imagePullPolicy"] = ALWAYS
    env: list[Json] = container.get("env") or []
    container["env"] = _convert_env(env, v, context)
    for source in container.get("envFrom") or ():
        if (reference := source.get("configMapRef")) is not None:
            _rename_root_ca(reference)


def _convert_env(env: list[Json], v: Envelope, context: TenantContext) -> list[Json]:
    """Return the environment with the API endpoint first, so that other variables can refer to it.

    Variables of the same name that the tenant sets are kept.
    """
    endpoint = _api_environment(context.api_host, context.api_port)
    if not env:
        return list(endpoint)
    defined = {entry.get("name") for entry in env}
    converted = [entry for entry in endpoint if entry["name"] not in defined]
    has_node_variable = False
    for entry in env:
        source = entry.get("valueFrom")
        if not source:
            converted.append(entry)
        elif source.get("fieldRef"):
            entries = pod_downward.env_entries(entry, v, context)
            converted.extend(entries[1:] if has_node_variable and len(entries) > 1 else entries)
            has_node_variable = has_node_variable or len(entries) > 1
        else:
            if (reference := source.get("configMapKeyRef")) is not None:
                _rename_root_ca(reference)
            converted.append(entry)
    return converted


@lru_cache(maxsize=1024)
def _api_environment(host: str, port: int) -> tuple[Json, ...]:
    """Return the kubelet's variables of Service `default/kubernetes`, with the tenant's endpoint.

    The result is shared and must not be changed.
    """
    bare = host.strip("[]")
    url = f"tcp://[{bare}]:{port}" if ":" in bare else f"tcp://{bare}:{port}"
    values = {
        "KUBERNETES_SERVICE_HOST": bare,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
        "KUBERNETES_PORT": url,
        "KUBERNETES_PORT_443_TCP": url,
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": str(port),
        "KUBERNETES_PORT_443_TCP_ADDR": bare,
    }
    return tuple({"name": name, "value": value} for name, value in values.items())


def with_requests(resources: Mapping[str, Any]) -> Json:
    """Return container resources that the super namespace's quota accepts.

    The quota over requests.cpu and requests.memory makes both compulsory. A container without request and limit of one of
    them requests zero (a limit counts as a request, too). The kubelet's quality of service classes ignore zero requests.
    """
    requests = resources.get("requests") or {}
    limits = resources.get("limits") or {}
    missing = [name for name in QUOTA_RESOURCES if name not in requests and name not in limits]
    if not missing:
        return dict(resources)
    return {**resources, "requests": {**requests, **dict.fromkeys(missing, _ZERO)}}
