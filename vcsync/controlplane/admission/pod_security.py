"""PodSecurity: a namespace's labels say which standard its Pods keep, are warned of, or are audited by.

Source: `admission/` and `api/` of k8s.io/pod-security-admission.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vcsync.controlplane import errors
from vcsync.controlplane.admission.plugin import Lookup, refusal
from vcsync.controlplane.admission.pod_checks import Told, findings
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.rest.scope import Admission

LABEL = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
NEWEST = 10**20
"""Stands for `latest`."""
MAX_PODS = 3000
"""So many Pods are looked at when a namespace's level changes."""
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,17})", re.ASCII)
_IGNORED = {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True)
class Standard:
    """A level in a version; by default what binds nobody."""

    level: str = "privileged"
    minor: int = NEWEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == NEWEST else f'v1.{self.minor}'}"

    def findings(self, metadata: Object, spec: Object) -> list[Told]:
        """Return what a Pod breaks."""
        if self.level == "privileged":
            return []
        return findings(self.level == "restricted", self.minor, metadata, spec)


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds in a namespace."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    wrong: list[FieldError] = field(default_factory=list)


def policy(labels: Mapping[str, str]) -> Policy:
    """Read a namespace's labels; what cannot be read binds most where Pods are refused, and nobody elsewhere."""
    wrong: list[FieldError] = []
    found = {mode: _standard(labels, mode, wrong) for mode in ("enforce", "audit", "warn")}
    enforce, warn = found["enforce"], found["warn"]
    known = labels.get(f"{LABEL}enforce") in LEVELS
    if f"{LABEL}warn" not in labels and known and LEVELS.index(enforce.level) > LEVELS.index(warn.level):
        minor = warn.minor if f"{LABEL}warn-version" in labels else enforce.minor
        warn = Standard(enforce.level, minor)
    return Policy(enforce, found["audit"], warn, wrong)


def _standard(labels: Mapping[str, str], mode: str, wrong: list[FieldError]) -> Standard:
    level, version = labels.get(f"{LABEL}{mode}"), labels.get(f"{LABEL}{mode}-version")
    minor = NEWEST
    if level is not None and level not in LEVELS:
        path = f"metadata.labels[{LABEL}{mode}]"
        wrong.append(errors.wrong(path, level, f"must be one of {', '.join(LEVELS)}"))
        level = "restricted" if mode == "enforce" else "privileged"
    if version not in (None, "latest"):
        match = _VERSION.fullmatch(version or "")
        if match is None:
            path = f"metadata.labels[{LABEL}{mode}-version]"
            wrong.append(errors.wrong(path, version, 'must be "latest" or "v1.x"'))
        else:
            minor = int(match[1])
    return Standard(level or "privileged", minor)


async def pod_security(admission: Admission, lookup: Lookup) -> None:
    """Hold Pods to their namespace's standard, warn of templates, and check a namespace's labels.

    Raises:
        StatusError: 403 a Pod breaks what is enforced, 422 labels cannot be read.
    """
    resource, new = admission.scope.kind.resource, admission.new
    if new is None or admission.operation not in ("CREATE", "UPDATE"):
        return
    of = (resource.group, resource.plural)
    if of == ("", "namespaces") and not admission.scope.subresource:
        await _namespace(admission, lookup, new)
    elif of == ("", "pods") and admission.scope.subresource not in _IGNORED:
        if admission.old is None or _matters(new, admission.old):
            await _pod(admission, lookup, new, enforce=True)
    elif of in _TEMPLATES and not admission.scope.subresource:
        template = new
        for step in _TEMPLATES[of]:
            template = template.get(step) or {}
        if template:
            await _pod(admission, lookup, template, enforce=False)


async def _pod(admission: Admission, lookup: Lookup, pod: Object, *, enforce: bool) -> None:
    scope = admission.scope
    namespace = await lookup.get(scope.tenant, "", "namespaces", scope.namespace)
    held = policy(_labels(namespace or {}))
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    broken = held.enforce.findings(metadata, spec) if enforce else []
    if broken:
        raise refusal(admission, f'violates PodSecurity "{held.enforce}": {_told(broken)}')
    broken = held.warn.findings(metadata, spec)
    if broken:
        scope.warn([f'would violate PodSecurity "{held.warn}": {_told(broken)}'])


def _told(broken: Iterable[Told]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in broken)


def _matters(new: Object, old: Object) -> bool:
    """Whether an update of a Pod brings other containers or images: all else has been judged before."""
    now, was = new.get("spec") or {}, old.get("spec") or {}
    for kind in ("containers", "initContainers"):
        images = [[each.get("image") for each in spec.get(kind) or ()] for spec in (now, was)]
        if images[0] != images[1]:
            return True
    before = {each.get("name"): each.get("image", "") for each in was.get("ephemeralContainers") or ()}
    return any(
        before.get(each.get("name")) != each.get("image", "") for each in now.get("ephemeralContainers") or ()
    )


async def _namespace(admission: Admission, lookup: Lookup, new: Object) -> None:
    held = policy(_labels(new))
    before = Policy() if admission.old is None else policy(_labels(admission.old))
    if held.wrong and (admission.old is None or held.wrong != before.wrong):
        kind = admission.scope.kind.resource.kind
        raise errors.invalid(kind, "", admission.name, held.wrong)
    now, was = held.enforce, before.enforce
    if admission.old is None or now == was or now.level == "privileged":
        return
    if now.minor == was.minor and LEVELS.index(now.level) <= LEVELS.index(was.level):
        return
    pods = await lookup.all(admission.scope.tenant, "", "pods", admission.name)
    admission.scope.warn(existing(admission.name, now, pods))


def existing(namespace: str, standard: Standard, pods: list[Object]) -> list[str]:
    """Return warnings of a namespace's Pods that break its new standard."""
    names: dict[str, list[str]] = {}
    for pod in _most_telling(pods)[:MAX_PODS]:
        broken = standard.findings(pod.get("metadata") or {}, pod.get("spec") or {})
        if broken:
            names.setdefault(", ".join(reason for reason, _ in broken), []).append(pod["metadata"]["name"])
    found = []
    if len(pods) > MAX_PODS:
        found.append(
            f"new PodSecurity enforce level only checked against the first {MAX_PODS} of {len(pods)} existing pods"
        )
    if names:
        found.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        )
    return [*found, *sorted(f"{_some(those)}: {reasons}" for reasons, those in names.items())]


def _most_telling(pods: list[Object]) -> list[Object]:
    """Put one Pod of each controller, and those without one, before the others."""
    first: list[Object] = []
    rest: list[Object] = []
    seen: set[str] = set()
    for pod in pods:
        owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
        controller = next((each.get("uid", "") for each in owners if each.get("controller")), None)
        (rest if controller in seen else first).append(pod)
        if controller is not None:
            seen.add(controller)
    return first + rest


def _some(names: list[str]) -> str:
    more = len(names) - 1
    others = f" (and {more} other pod{'s' if more > 1 else ''})" if more else ""
    return f"{min(names)}{others}"


def _labels(obj: Object) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
