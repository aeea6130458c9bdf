"""PodSecurity: enforces, warns of and audits the Pod security standards that the labels of a namespace name.

Source: `admission/` and `api/` of k8s.io/pod-security-admission.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal
from vcsync.apiserver.admission.framework.settings import Settings
from vcsync.apiserver.admission.pod_standards.pod_checks import Violation
from vcsync.apiserver.admission.pod_standards.standards import (
    LABEL,
    LEVELS,
    PRIVILEGED,
    Policy,
    Standard,
    ignored,
    policy,
)
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

DEFAULT = Settings()
ENFORCED, VIOLATIONS, EXEMPT, ERROR = (
    f"{LABEL}{name}" for name in ("enforce-policy", "audit-violations", "exempt", "error")
)
"""Annotations of audit events by mode."""
MAX_PODS = 3000
"""Most Pods that are checked when the level of a namespace changes."""
POD_STEPS = 20
"""Steps of a budget that the check of a Pod takes, and of each of its containers."""
UNCHECKED = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
"""Subresources of Pods that do not write containers."""
TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""Path of the Pod template by (group, plural)."""


def template_of(of: tuple[str, str], obj: Object) -> Object:
    """Return the Pod template of an object, empty if it has none.

    Args:
        of: Group and plural of the object, one of `TEMPLATES`.
        obj: The object.
    """
    for step in TEMPLATES[of]:
        obj = obj.get(step) or {}
    return obj


class PodSecurity:
    """The PodSecurity plug-in.

    Args:
        settings: Defaults of namespaces without labels, and exemptions.
    """

    def __init__(self, settings: Settings = DEFAULT) -> None:
        self._defaults = settings.standard
        self._exempt = settings.exemptions

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Check Pods and Pod templates by the standard of their namespace, and the labels of namespaces.

        Raises:
            StatusError: 403, a Pod violates the enforced standard; 422, labels are invalid.
        """
        resource, new = admission.scope.kind.resource, admission.new
        if new is None or admission.operation not in ("CREATE", "UPDATE"):
            return
        of = (resource.group, resource.plural)
        if of == ("", "namespaces") and not admission.scope.subresource:
            await self._namespace(admission, lookup, new)
        elif of == ("", "pods") and admission.scope.subresource not in UNCHECKED:
            await self._pod(admission, lookup, new, enforce=True)
        elif of in TEMPLATES and not admission.scope.subresource:
            template = template_of(of, new)
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
        if enforce and admission.old is not None and not is_significant(pod, admission.old):
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
        before = PRIVILEGED if old is None else policy(labels_of(old), self._defaults)
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
        classes = self._exempt.runtime_classes

        async def pods() -> AsyncIterator[Object]:
            async for each in lookup.each(admission.scope.tenant, "", "pods", admission.name):
                if (each.get("spec") or {}).get("runtimeClassName") not in classes:
                    yield each

        admission.scope.warn(await existing(admission.name, now, pods))


def _judge(admission: Admission, held: Policy, metadata: Object, spec: Object, *, enforce: bool) -> None:
    """Report the violations of a Pod to the audit log and the caller.

    Raises:
        StatusError: 403, the Pod violates the enforced standard.
    """
    scope = admission.scope
    if held.wrong:
        scope.audit.annotate(ERROR, f"Failed to parse policy: {_aggregate(held.wrong)}")
    if enforce:
        scope.audit.annotate(ENFORCED, str(held.enforce))
    if scope.audit.level:
        broken = held.audit.findings(metadata, spec)
        if broken:
            scope.audit.annotate(VIOLATIONS, f'would violate PodSecurity "{held.audit}": {described(broken)}')
    broken = held.enforce.findings(metadata, spec) if enforce else []
    if broken:
        raise refusal(admission, f'violates PodSecurity "{held.enforce}": {described(broken)}')
    broken = held.warn.findings(metadata, spec)
    if broken:
        scope.warn([f'would violate PodSecurity "{held.warn}": {described(broken)}'])


def _aggregate(wrong: Sequence[FieldError]) -> str:
    texts = list(dict.fromkeys(str(each) for each in wrong))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def described(broken: Iterable[Violation]) -> str:
    """Return violations as text."""
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in broken)


def is_significant(new: Object, old: Object) -> bool:
    """Return whether an update of a Pod changes containers or images. Other changes cannot violate a standard."""
    now, was = new.get("spec") or {}, old.get("spec") or {}
    for kind in ("containers", "initContainers"):
        images = [[each.get("image") for each in spec.get(kind) or ()] for spec in (now, was)]
        if images[0] != images[1]:
            return True
    before = {each.get("name"): each.get("image", "") for each in was.get("ephemeralContainers") or ()}
    return any(
        before.get(each.get("name")) != each.get("image", "") for each in now.get("ephemeralContainers") or ()
    )


async def existing(
    namespace: str, standard: Standard, pods: Callable[[], AsyncIterator[Object]]
) -> list[str]:
    """Return warnings about existing Pods that violate the new standard of their namespace. Other tasks run in between.

    Args:
        namespace: The namespace.
        standard: The standard.
        pods: Returns its Pods. They are read twice if they are many, since all of them may not fit into memory.
    """
    names: dict[str, list[str]] = {}
    number = checked = 0
    budget = Budget("the Pods of a namespace")
    for others in (False, True):
        seen: set[str] = set()
        async for pod in pods():
            number += not others
            if _follows(pod, seen) != others or checked == MAX_PODS:
                continue
            checked += 1
            metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
            if broken := standard.findings(metadata, spec):
                names.setdefault(", ".join(reason for reason, _ in broken), []).append(metadata["name"])
            budget.spend(POD_STEPS * (1 + len(spec.get("containers") or ())))
            await rest(budget)
        if checked in (number, MAX_PODS):
            break
    found = []
    if number > MAX_PODS:
        found.append(
            f"new PodSecurity enforce level only checked against the first {MAX_PODS} of {number} existing pods"
        )
    if names:
        found.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        )
    return [*found, *sorted(f"{_decorated(those)}: {reasons}" for reasons, those in names.items())]


def _follows(pod: Object, seen: set[str]) -> bool:
    """Return whether another Pod of the same controller came before. Pods without a controller follow none."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    controller = next((each.get("uid", "") for each in owners if each.get("controller")), None)
    if controller is None:
        return False
    follows = controller in seen
    seen.add(controller)
    return follows


def _decorated(names: list[str]) -> str:
    """Return the first name and the number of the others."""
    more = len(names) - 1
    others = f" (and {more} other pod{'s' if more > 1 else ''})" if more else ""
    return f"{min(names)}{others}"


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return an object's labels."""
    return (obj.get("metadata") or {}).get("labels") or {}


pod_security = PodSecurity()
"""The plug-in with its default configuration."""
