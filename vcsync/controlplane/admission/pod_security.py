"""PodSecurity: a namespace's labels say which standard its Pods keep, are warned of, or are audited by.

Source: `admission/` and `api/` of k8s.io/pod-security-admission.
"""

from collections.abc import Iterable, Mapping, Sequence

from vcsync.controlplane import errors
from vcsync.controlplane.admission.plugin import Lookup, refusal
from vcsync.controlplane.admission.pod_checks import Told
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.admission.standards import (
    FREE,
    LABEL,
    LEVELS,
    Policy,
    Standard,
    ignored,
    policy,
)
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.rest.scope import Admission

DEFAULT = Settings()
ENFORCED, VIOLATIONS, EXEMPT, ERROR = (
    f"{LABEL}{name}" for name in ("enforce-policy", "audit-violations", "exempt", "error")
)
"""Annotations of audit events."""
MAX_PODS = 3000
"""So many Pods are looked at when a namespace's level changes."""
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


class PodSecurity:
    """Holds Pods to their namespace's standard; a plug-in."""

    def __init__(self, settings: Settings = DEFAULT) -> None:
        """Take what holds without labels, and what nothing holds for."""
        self._defaults = settings.standard
        self._exempt = settings.exemptions

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Hold Pods to their namespace's standard, warn of templates, and check a namespace's labels.

        Raises:
            StatusError: 403 a Pod breaks what is enforced, 422 labels cannot be read.
        """
        resource, new = admission.scope.kind.resource, admission.new
        if new is None or admission.operation not in ("CREATE", "UPDATE"):
            return
        of = (resource.group, resource.plural)
        if of == ("", "namespaces") and not admission.scope.subresource:
            await self._namespace(admission, lookup, new)
        elif of == ("", "pods") and admission.scope.subresource not in _IGNORED:
            await self._pod(admission, lookup, new, enforce=True)
        elif of in _TEMPLATES and not admission.scope.subresource:
            template = new
            for step in _TEMPLATES[of]:
                template = template.get(step) or {}
            if template:
                await self._pod(admission, lookup, template, enforce=False)

    async def _pod(self, admission: Admission, lookup: Lookup, pod: Object, *, enforce: bool) -> None:
        scope, exempt = admission.scope, self._exempt
        if self._exempted(admission, "namespace", scope.namespace in exempt.namespaces):
            return
        if self._exempted(admission, "user", scope.context.user.name in exempt.usernames):
            return
        namespace = await lookup.get(scope.tenant, "", "namespaces", scope.namespace)
        held = policy(labels_of(namespace or {}), self._defaults)
        if not held.wrong and not (held.binds if enforce else held.warn.binds or held.audit.binds):
            if enforce:
                scope.audit.annotate(ENFORCED, str(held.enforce))
            return
        if enforce and admission.old is not None and not _matters(pod, admission.old):
            return
        spec = pod.get("spec") or {}
        if self._exempted(admission, "runtimeClass", spec.get("runtimeClassName") in exempt.runtime_classes):
            return
        _judge(admission, held, pod.get("metadata") or {}, spec, enforce=enforce)

    @staticmethod
    def _exempted(admission: Admission, why: str, is_exempt: bool) -> bool:
        if is_exempt:
            admission.scope.audit.annotate(EXEMPT, why)
        return is_exempt

    async def _namespace(self, admission: Admission, lookup: Lookup, new: Object) -> None:
        held = policy(labels_of(new), self._defaults)
        old = admission.old
        before = FREE if old is None else policy(labels_of(old), self._defaults)
        if held.wrong and (old is None or held.wrong != before.wrong):
            kind = admission.scope.kind.resource.kind
            raise errors.invalid(kind, "", admission.name, held.wrong)
        exempt = admission.name in self._exempt.namespaces
        if old is None:
            if exempt:
                admission.scope.warn(ignored(admission.name, held, labels_of(new), self._defaults))
            return
        now, was = held.enforce, before.enforce
        relaxed = now.minor == was.minor and LEVELS.index(now.level) <= LEVELS.index(was.level)
        if now == was or not now.binds or relaxed:
            return
        if exempt:
            admission.scope.warn(ignored(admission.name, held, labels_of(new), self._defaults))
            return
        pods = await lookup.all(admission.scope.tenant, "", "pods", admission.name)
        admission.scope.warn(existing(admission.name, now, self._looked_at(pods)))

    def _looked_at(self, pods: list[Object]) -> list[Object]:
        """Return those Pods that no exemption is for."""
        classes = self._exempt.runtime_classes
        return [each for each in pods if (each.get("spec") or {}).get("runtimeClassName") not in classes]


def _judge(admission: Admission, held: Policy, metadata: Object, spec: Object, *, enforce: bool) -> None:
    """Tell the audit log and the caller what a Pod breaks.

    Raises:
        StatusError: 403, what is enforced.
    """
    scope = admission.scope
    if held.wrong:
        scope.audit.annotate(ERROR, f"Failed to parse policy: {_aggregate(held.wrong)}")
    if enforce:
        scope.audit.annotate(ENFORCED, str(held.enforce))
    if scope.audit.level:
        broken = held.audit.findings(metadata, spec)
        if broken:
            scope.audit.annotate(VIOLATIONS, f'would violate PodSecurity "{held.audit}": {_told(broken)}')
    broken = held.enforce.findings(metadata, spec) if enforce else []
    if broken:
        raise refusal(admission, f'violates PodSecurity "{held.enforce}": {_told(broken)}')
    broken = held.warn.findings(metadata, spec)
    if broken:
        scope.warn([f'would violate PodSecurity "{held.warn}": {_told(broken)}'])


def _aggregate(wrong: Sequence[FieldError]) -> str:
    texts = list(dict.fromkeys(str(each) for each in wrong))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


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


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return an object's labels."""
    return (obj.get("metadata") or {}).get("labels") or {}


pod_security = PodSecurity()
"""The plug-in as an operator has it who sets nothing."""
