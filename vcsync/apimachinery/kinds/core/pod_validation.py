"""Validation of the spec of Pods and pod templates. Pure.

Source: `ValidatePodSpec` and `ValidatePodTemplateSpec` in Kubernetes' `pkg/apis/core/validation`.
"""

from collections.abc import Collection

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.addresses import address
from vcsync.apimachinery.kinds.core import pod_scheduling
from vcsync.apimachinery.kinds.core.pod_annotations import annotations_and_fields, pod_annotations
from vcsync.apimachinery.kinds.core.pod_containers import (
    Surroundings,
    containers,
    ephemeral_containers,
    init_containers,
)
from vcsync.apimachinery.kinds.core.pod_defaults import containers as every_container
from vcsync.apimachinery.kinds.core.pod_security import (
    host_process,
    host_users,
    operating_system,
    pod_security,
)
from vcsync.apimachinery.kinds.core.pod_volumes import volumes
from vcsync.apimachinery.kinds.core.resources import is_huge, milli, pod_resource_name, requirements, total
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    annotations,
    choice,
    indexed,
    items,
    labels,
    one_of,
    outside,
    part,
    say,
    text,
)
from vcsync.objects import quantity

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")


def template(path: str, found: Object) -> Findings:
    """Check a pod template."""
    metadata, spec = part(found, "metadata"), part(found, "spec")
    yield from labels(f"{path}.labels", part(metadata, "labels"))
    yield from annotations(f"{path}.annotations", part(metadata, "annotations"))
    yield from pod_annotations(f"{path}.annotations", part(metadata, "annotations"), spec)
    yield from pod_spec(f"{path}.spec", spec, None)
    yield from annotations_and_fields(f"{path}.spec", part(metadata, "annotations"), spec)
    if items(spec, "ephemeralContainers"):
        yield errors.not_allowed(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def pod_spec(path: str, spec: Object, pod: Object | None) -> Findings:
    """Check a Pod's spec; `pod` is the Pod, or None for a template."""
    grace = spec.get("terminationGracePeriodSeconds")
    name = text(part(pod, "metadata"), "name")
    good, wrong = volumes(f"{path}.volumes", spec, name, is_pod=pod is not None)
    yield from wrong
    yield from _resource_claims(f"{path}.resourceClaims", spec)
    around = Surroundings(
        volumes=good,
        claims=dict.fromkeys(
            sorted(filter(None, (text(each, "name") for each in items(spec, "resourceClaims"))))
        ),
        grace=grace if isinstance(grace, int) else None,
        restart_policy=text(spec, "restartPolicy"),
        host_users=spec.get("hostUsers") is not False,
        system=text(part(spec, "os"), "name"),
    )
    yield from _all_containers(path, spec, around)
    if isinstance(spec.get("resources"), dict):
        yield from _whole_resources(f"{path}.resources", spec, around.claims)
    yield from _host_network_ports(path, spec, is_pod=pod is not None)
    yield from choice(f"{path}.restartPolicy", text(spec, "restartPolicy"), _RESTART)
    yield from choice(f"{path}.dnsPolicy", text(spec, "dnsPolicy"), _DNS)
    yield from labels(f"{path}.nodeSelector", part(spec, "nodeSelector"))
    yield from pod_security(f"{path}.securityContext", part(spec, "securityContext"), spec)
    yield from pod_scheduling.affinity(f"{path}.affinity", spec.get("affinity"))
    yield from _dns_config(f"{path}.dnsConfig", spec.get("dnsConfig"), text(spec, "dnsPolicy"))
    for each, here in indexed(spec, "readinessGates", f"{path}.readinessGates"):
        kind = text(each, "conditionType")
        yield from say(f"{here}.conditionType", kind, names.qualified_name(kind))
    yield from _gates(f"{path}.schedulingGates", spec)
    yield from pod_scheduling.spread(
        f"{path}.topologySpreadConstraints", items(spec, "topologySpreadConstraints")
    )
    yield from host_process(path, spec)
    yield from host_users(path, spec)
    yield from _host_name(path, spec)
    yield from _names(path, spec)
    yield from _rest(path, spec)


def _all_containers(path: str, spec: Object, around: Surroundings) -> Findings:
    main, before = items(spec, "containers"), items(spec, "initContainers")
    yield from containers(f"{path}.containers", main, around)
    regular = frozenset(text(each, "name") for each in main)
    yield from init_containers(f"{path}.initContainers", before, _with(around, regular))
    everyone = regular | {text(each, "name") for each in before}
    yield from ephemeral_containers(
        f"{path}.ephemeralContainers", items(spec, "ephemeralContainers"), _with(around, everyone)
    )


def _with(around: Surroundings, others: frozenset[str]) -> Surroundings:
    return Surroundings(
        around.volumes,
        around.claims,
        around.grace,
        around.restart_policy,
        around.host_users,
        around.system,
        others,
    )


def _resource_claims(path: str, spec: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(spec, "resourceClaims", path):
        name = text(each, "name")
        if not name:
            yield errors.required(f"{here}.name")
        elif name in seen:
            yield errors.duplicate(f"{here}.name", name)
        else:
            yield from say(f"{here}.name", name, names.dns_label(name))
            seen.add(name)
        claim, made = each.get("resourceClaimName"), each.get("resourceClaimTemplateName")
        shown = {"Name": name, "ResourceClaimName": claim, "ResourceClaimTemplateName": made}
        if claim is not None and made is not None:
            message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield errors.wrong(here, shown, message)
        if claim is None and made is None:
            yield errors.wrong(
                here, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
        for key, value in (("resourceClaimName", claim), ("resourceClaimTemplateName", made)):
            if value is not None:
                yield from say(f"{here}.{key}", value, names.dns_subdomain(value))


def _whole_resources(path: str, spec: Object, claims: Collection[str]) -> Findings:
    whole = spec["resources"]
    if text(part(spec, "os"), "name") == "windows":
        yield errors.not_allowed(path, "may not be set for a windows pod")
        return
    if "claims" in whole:
        yield errors.not_allowed(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from requirements(path, whole, claims, pod_resource_name)
    limits, requests = part(whole, "limits"), part(whole, "requests")
    for name, value in total(spec, "requests").items():
        if name in requests and value > milli(requests[name]):
            message = quantity.canonical(value, str(requests[name]))
            yield errors.wrong(
                f"{path}.requests[{name}]",
                requests[name],
                f"must be greater than or equal to aggregate container requests of {message}",
            )
    for name, value in total(spec, "limits").items():
        if is_huge(name) and name in limits and value > milli(limits[name]):
            message = quantity.canonical(value, str(limits[name]))
            yield errors.wrong(
                f"{path}.limits[{name}]",
                limits[name],
                f"must be greater than or equal to aggregate container limits of {message}",
            )
    for index, each in enumerate(items(spec, "containers")):
        for name, value in part(each, "resources", "limits").items():
            if name in limits and milli(value) > milli(limits[name]):
                yield errors.wrong(
                    f"{path}.containers[{index}][{name}].limits",
                    value,
                    f"must be less than or equal to pod limits of {limits[name]}",
                )


def _host_network_ports(path: str, spec: Object, *, is_pod: bool) -> Findings:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(items(spec, "containers")):
        for each, here in indexed(container, "ports", f"{path}.containers[{index}].ports"):
            host = each.get("hostPort", 0)
            if (is_pod or host) and host != each.get("containerPort", 0):
                yield errors.wrong(
                    f"{here}.hostPort", host, "must match `containerPort` when `hostNetwork` is true"
                )


def _dns_config(path: str, found: Object | None, policy: str) -> Findings:
    servers = items(found, "nameservers")
    if policy == "None":
        if found is None:
            yield errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            yield errors.required(
                f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
            )
            return
    if len(servers) > 3:
        yield errors.wrong(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, each in enumerate(servers):
        yield from address(f"{path}.nameservers[{index}]", each)
    searches = items(found, "searches")
    if len(searches) > 32:
        yield errors.wrong(f"{path}.searches", searches, "must not have more than 32 search paths")
    if names.size(" ".join(searches)) > 2048:
        message = "must not have more than 2048 characters (including spaces) in the search list"
        yield errors.wrong(f"{path}.searches", searches, message)
    for index, each in enumerate(searches):
        if each != ".":
            domain = each.removesuffix(".")
            yield from say(f"{path}.searches[{index}]", domain, names.dns_subdomain_with_underscore(domain))
    for each, here in indexed(found, "options", f"{path}.options"):
        if not text(each, "name"):
            yield errors.required(here, "must not be empty")


def _gates(path: str, spec: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(spec, "schedulingGates", path):
        name = text(each, "name")
        yield from say(here, name, names.qualified_name(name))
        if name in seen:
            yield errors.duplicate(here, name)
        seen.add(name)


def _host_name(path: str, spec: Object) -> Findings:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    here = f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        yield errors.not_allowed(here, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield errors.not_allowed(here, "may not be specified when hostNetwork is true")
    if names.size(name) > 64:
        yield errors.too_long(here, 64)
    yield from say(here, name, names.dns_subdomain(name))


def _names(path: str, spec: Object) -> Findings:
    for key in ("serviceAccountName", "nodeName"):
        value = text(spec, key)
        if value:
            yield from say(f"{path}.{key}", value, names.dns_subdomain(value))
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int):
        yield from say(f"{path}.activeDeadlineSeconds", deadline, outside(deadline, 1, 2**31 - 1))
    for key in ("hostname", "subdomain"):
        value = text(spec, key)
        if value:
            yield from say(f"{path}.{key}", value, names.dns_label(value))
    yield from pod_scheduling.tolerations(f"{path}.tolerations", items(spec, "tolerations"))
    for each, here in indexed(spec, "hostAliases", f"{path}.hostAliases"):
        yield from address(f"{here}.ip", text(each, "ip"))
        for index, name in enumerate(items(each, "hostnames")):
            yield from say(f"{here}.hostnames[{index}]", name, names.dns_subdomain(name))
    priority = text(spec, "priorityClassName")
    if priority:
        yield from say(f"{path}.priorityClassName", priority, names.dns_subdomain(priority))
    runtime = spec.get("runtimeClassName")
    if runtime is not None:
        yield from say(f"{path}.runtimeClassName", runtime, names.dns_subdomain(runtime))


def _rest(path: str, spec: Object) -> Findings:
    if "preemptionPolicy" in spec:
        policy = text(spec, "preemptionPolicy")
        if not policy:
            yield errors.required(f"{path}.preemptionPolicy")
        else:
            yield from one_of(f"{path}.preemptionPolicy", policy, _PREEMPTION)
    if "overhead" in spec:
        yield from requirements(f"{path}.overhead", {"limits": spec["overhead"]}, frozenset())
    if isinstance(spec.get("os"), dict):
        yield from operating_system(path, spec)
    sources = {text(each, "name"): each for each in items(spec, "volumes")}
    for key, index, container in every_container(spec, ephemeral=True):
        for each, here in indexed(container, "env", f"{path}.{key}[{index}].env"):
            reference = part(each, "valueFrom", "fileKeyRef")
            if not reference:
                continue
            volume = text(reference, "volumeName")
            place = f"{here}.valueFrom.fileKeyRef.volumeName"
            if volume not in sources:
                yield errors.absent(place, volume)
            elif "emptyDir" not in sources[volume]:
                yield errors.wrong(place, volume, "referenced volume must be of type emptyDir")
