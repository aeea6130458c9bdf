"""Enforces TenantPolicies on each write of a tenant, before and after the tenant's own policies and webhooks change it."""

from collections.abc import Iterator

from vcsync.api.policy_specs import PolicyServices
from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal, spec_of
from vcsync.apiserver.admission.pod_security.plugin import (
    TEMPLATES,
    UNCHECKED,
    described,
    is_significant,
    template_of,
)
from vcsync.apiserver.admission.policies.enforcement import Policies, name_of
from vcsync.apiserver.admission.policies.validating import CODES
from vcsync.apiserver.admission.tenant_policies import services
from vcsync.apiserver.admission.tenant_policies.compiled import TenantPolicy
from vcsync.apiserver.admission.tenant_policies.following import TenantPolicies
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.images import outside

HARMLESS = frozenset({"eviction", "finalize", "status", "token"})
"""Subresources that a forbidden resource keeps: what exists goes on and can be deleted."""
OWN_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system", "vcsync-system"})
OWN_CONFIG_MAPS = frozenset({"kube-root-ca.crt"})
"""Objects that control planes and vcsync create. They need no labels."""


class TenantPolicyEnforcement:
    """The plug-ins in front of all others.

    Args:
        policies: The policies of the operator.
        expressions: Evaluates expressions.
        lookup: Reads Namespaces.
    """

    def __init__(self, policies: TenantPolicies, expressions: Policies, lookup: Lookup) -> None:
        self._policies = policies
        self._expressions = expressions
        self._lookup = lookup

    async def mutate(self, admission: Admission) -> None:
        """Refuse writes of forbidden resources before webhooks are called, and set the default RuntimeClass.

        Raises:
            StatusError: 403, the resource is forbidden.
            StoreError: The policies cannot be read.
        """
        if self._policies.idle:
            return
        for policy in await self._policies.of(admission.scope.tenant):
            if policy.broken:
                raise _refusal(
                    admission, policy, f"cannot be enforced, so nothing is written: {policy.broken}"
                )
            _check_resource(admission, policy)
            if policy.placed:
                await self._protect(admission, policy)
            if policy.runtime_class and creates(admission, "pods"):
                spec = spec_of(admission)
                if spec.get("runtimeClassName") is None:
                    spec["runtimeClassName"] = policy.runtime_class

    async def validate(self, admission: Admission) -> None:
        """Check the object that is about to be stored.

        Raises:
            StatusError: A policy refuses it.
            StoreError: The policies cannot be read.
        """
        if self._policies.idle:
            return
        for policy in await self._policies.of(admission.scope.tenant):
            for each in _missing_labels(admission, policy):
                raise _refusal(admission, policy, each)
            if policy.services is not None:
                _judge_service(admission, policy, policy.services)
            if policy.judges_pods:
                _judge_pods(admission, policy)
            if policy.hooks:
                await self._evaluate(admission, policy)

    async def _protect(self, admission: Admission, policy: TenantPolicy) -> None:
        """Refuse writes of placed objects by the tenant. They go with their namespace, and controllers report on them.

        Raises:
            StatusError: 403, the object is placed.
        """
        scope, resource = admission.scope, admission.scope.kind.resource
        if getattr(scope.caller, "system", False) or scope.subresource in HARMLESS:
            return
        name = admission.name or (admission.old or admission.new or {}).get("metadata", {}).get("name", "")
        if not any(each.is_at(resource, scope.namespace, name) for each in policy.placed):
            return
        if admission.operation == "DELETE" and scope.namespace:
            namespace = await self._lookup.get(scope.tenant, "", "namespaces", scope.namespace)
            if namespace is None or _is_leaving(namespace):
                return
        raise _refusal(admission, policy, "places this object: only the operator changes it")

    async def _evaluate(self, admission: Admission, policy: TenantPolicy) -> None:
        for _, denial in await self._expressions.denials(admission, policy.hooks):
            error = _refusal(admission, policy, f"denies the request: {denial.message}")
            error.reason = denial.reason or "Forbidden"
            error.code = CODES.get(error.reason, 403)
            error.causes = (Cause("", denial.message),)
            raise error


def _refusal(admission: Admission, policy: TenantPolicy, why: str) -> StatusError:
    error = refusal(admission, f"TenantPolicy '{policy.name}' of the operator {why}")
    error.details["name"] = name_of(admission)
    return error


def _check_resource(admission: Admission, policy: TenantPolicy) -> None:
    scope = admission.scope
    if admission.operation == "DELETE" or scope.subresource in HARMLESS:
        return
    if _is_leaving(admission.old):
        return
    for each in policy.forbidden:
        if each.holds(scope.kind.resource, scope.subresource):
            what = f"{scope.kind.resource.plural}{'/' if scope.subresource else ''}{scope.subresource}"
            raise _refusal(admission, policy, f"forbids {what}")


def _is_leaving(obj: Object | None) -> bool:
    return obj is not None and bool(obj["metadata"].get("deletionTimestamp"))


def _missing_labels(admission: Admission, policy: TenantPolicy) -> Iterator[str]:
    """Yield which required labels an object lacks. Those that it lacked before are not required of it."""
    scope, new, old = admission.scope, admission.new, admission.old
    if new is None or scope.subresource or admission.operation not in ("CREATE", "UPDATE"):
        return
    labels, before = _labels_of(new), None if old is None else _labels_of(old)
    for each in policy.labels:
        if not each.resources.holds(scope.kind.resource, "") or _is_own(admission):
            continue
        for key, values in each.labels:
            if _meets(labels, key, values) or (before is not None and not _meets(before, key, values)):
                continue
            wanted = f", one of {', '.join(sorted(values))}" if values else ""
            yield f"requires label {key}{wanted}"


def _is_own(admission: Admission) -> bool:
    resource = admission.scope.kind.resource
    if resource.group:
        return False
    own = {"namespaces": OWN_NAMESPACES, "configmaps": OWN_CONFIG_MAPS}.get(resource.plural, frozenset())
    return admission.name in own


def _meets(labels: Object, key: str, values: frozenset[str]) -> bool:
    return key in labels and (not values or labels[key] in values)


def _labels_of(obj: Object) -> Object:
    return (obj.get("metadata") or {}).get("labels") or {}


def _judge_service(admission: Admission, policy: TenantPolicy, allowed: PolicyServices) -> None:
    resource, new = admission.scope.kind.resource, admission.new
    if (resource.group, resource.plural) != ("", "services") or admission.scope.subresource or new is None:
        return
    for why in services.violations(allowed, new, admission.old):
        raise _refusal(admission, policy, why)


def _judge_pods(admission: Admission, policy: TenantPolicy) -> None:
    """Refuse a Pod that violates a policy, and warn of Pod templates whose Pods would."""
    scope, new, old = admission.scope, admission.new, admission.old
    of = (scope.kind.resource.group, scope.kind.resource.plural)
    if new is None or admission.operation not in ("CREATE", "UPDATE"):
        return
    if of == ("", "pods") and scope.subresource not in UNCHECKED:
        for why in _violations(policy, new, old):
            raise _refusal(admission, policy, why)
    elif of in TEMPLATES and not scope.subresource:
        template = template_of(of, new)
        if template:
            scope.warn(
                [
                    f"Pods of this template will be refused: TenantPolicy '{policy.name}' of the operator {why}"
                    for why in _violations(policy, template, None)
                ]
            )


def _violations(policy: TenantPolicy, pod: Object, old: Object | None) -> Iterator[str]:
    spec = pod.get("spec") or {}
    found = outside(spec, (old or {}).get("spec") or {}, policy.registries)
    if found:
        yield f"allows images of {', '.join(policy.registries)} only: {', '.join(found)}"
    if policy.standard.binds and (old is None or is_significant(pod, old)):
        broken = policy.standard.findings(pod.get("metadata") or {}, spec)
        if broken:
            yield f'requires PodSecurity "{policy.standard}": {described(broken)}'
