"""Authorizes policies with parameters: their authors must be allowed to read the parameters, which a policy can reveal.

Behaviour: the `authz.go` of the policies' strategies in Kubernetes' `pkg/registry/admissionregistration`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.authorizing import Check
from vcsync.apimachinery.gotext import plain
from vcsync.apimachinery.strategy import Object, User
from vcsync.apiserver.admission.framework.configurations import GROUP
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.request.caller import MASTERS
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Admission, Admit

Allowed = Callable[[Any, Check], Awaitable[bool]]
"""Authorizes a caller: (caller, attributes of the request) -> whether it is allowed."""
ParamKind = Callable[[str, Object], Kind | None]
"""(tenant, paramKind) -> the kind."""

POLICIES = frozenset({"mutatingadmissionpolicies", "validatingadmissionpolicies"})
BINDINGS = {each.replace("policies", "policybindings"): each for each in POLICIES}


def check_params(lookup: Lookup, allowed: Allowed, param_kind: ParamKind) -> Admit:
    """Return a plug-in that refuses policies and bindings whose authors may not read the parameters."""

    async def check(admission: Admission) -> None:
        resource = admission.scope.kind.resource
        if resource.group != GROUP or admission.new is None or admission.scope.subresource:
            return
        if MASTERS in admission.scope.context.user.groups:
            return
        if resource.plural in POLICIES:
            await _policy(admission, allowed, param_kind)
        elif resource.plural in BINDINGS:
            await _binding(admission, lookup, allowed, param_kind)

    return check


def _specs(admission: Admission) -> tuple[Object, Object]:
    return (admission.new or {}).get("spec") or {}, (admission.old or {}).get("spec") or {}


async def _policy(admission: Admission, allowed: Allowed, param_kind: ParamKind) -> None:
    new, old = _specs(admission)
    wanted = new.get("paramKind")
    if wanted is None or wanted == old.get("paramKind"):
        return
    check = _about(admission, wanted, param_kind, "get", "*", "*")
    if not await allowed(admission.scope.caller, check):
        kind = f"(kind={wanted.get('kind') or ''}, apiVersion={wanted.get('apiVersion') or ''})"
        why = f'must have "get" permission on all objects of the referenced paramKind {kind}'
        raise _refused(admission, "paramKind", f"user {_shown(admission.scope.context.user)} {why}")


async def _binding(admission: Admission, lookup: Lookup, allowed: Allowed, param_kind: ParamKind) -> None:
    new, old = _specs(admission)
    wanted, name = new.get("paramRef"), new.get("policyName") or ""
    if wanted is None or (wanted == old.get("paramRef") and name == old.get("policyName")):
        return
    plural = BINDINGS[admission.scope.kind.resource.plural]
    policy = await lookup.get(admission.scope.tenant, GROUP, plural, name)
    kind = ((policy or {}).get("spec") or {}).get("paramKind")
    verb = "get" if wanted.get("name") else "list"
    check = _about(admission, kind, param_kind, verb, wanted.get("name") or "", wanted.get("namespace") or "")
    if await allowed(admission.scope.caller, check):
        return
    user = f"user {_shown(admission.scope.context.user)} does not have"
    if policy is None:
        why = f"unable to get policy {name} to determine minimum required permissions and {user} "
        raise _refused(
            admission, "paramRef", f'{why}"{verb}" permission for all groups, versions and resources'
        )
    if kind is not None and check.resource == "*":
        about = f"&ParamKind{{APIVersion:{kind.get('apiVersion')},Kind:{kind.get('kind')},}}"
        why = f"unable to resolve paramKind {about} to determine minimum required permissions and {user} "
        raise _refused(
            admission, "paramRef", f'{why}"{verb}" permission for all groups, versions and resources'
        )
    raise _refused(admission, "paramRef", f'{user} "{verb}" permission on the object referenced by paramRef')


def _about(  # noqa: PLR0917 - one question's parts
    admission: Admission, wanted: Object | None, param_kind: ParamKind, verb: str, name: str, namespace: str
) -> Check:
    """Return the required permission. If the kind of the parameters is unknown, it covers all resources."""
    if wanted is None:
        return Check(verb, group="*", resource="*", namespace=namespace, name=name)
    group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
    kind = param_kind(admission.scope.tenant, wanted)
    resource = "*" if kind is None else kind.resource.plural
    return Check(verb, group=group, version=version, resource=resource, namespace=namespace, name=name)


def _shown(user: User) -> str:
    extra = plain({name: list(values) for name, values in user.extra.items()})
    return f"&{{{user.name} {user.uid} {plain(list(user.groups))} {extra}}}"


def _refused(admission: Admission, part: str, why: str) -> errors.StatusError:
    resource = admission.scope.kind.resource
    name = ((admission.new or {}).get("metadata") or {}).get("name") or admission.scope.name
    return errors.invalid(resource.kind, resource.group, name, [errors.not_allowed(f"spec.{part}", why)])
