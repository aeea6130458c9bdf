"""Whoever writes a policy with parameters, or binds one, must be allowed to read them: a policy could tell what they say.

As the `authz.go` of the policies' strategies in Kubernetes' `pkg/registry/admissionregistration`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.admission.configurations import GROUP
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.behaviour import Object, User
from vcsync.controlplane.cel.authorizing import Check
from vcsync.controlplane.gotext import plain
from vcsync.controlplane.identity.caller import MASTERS
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.scope import Admission, Admit

Allowed = Callable[[Any, Check], Awaitable[bool]]
"""(caller, what is asked)"""
ParamKind = Callable[[str, Object], Kind | None]
"""(tenant, paramKind) -> what serves it."""

POLICIES = frozenset({"mutatingadmissionpolicies", "validatingadmissionpolicies"})
BINDINGS = {each.replace("policies", "policybindings"): each for each in POLICIES}


def check_params(lookup: Lookup, allowed: Allowed, param_kind: ParamKind) -> Admit:
    """Return what refuses policies and bindings whose authors may not read the parameters."""

    async def check(asked: Admission) -> None:
        resource = asked.scope.kind.resource
        if resource.group != GROUP or asked.new is None or asked.scope.subresource:
            return
        if MASTERS in asked.scope.context.user.groups:
            return
        if resource.plural in POLICIES:
            await _policy(asked, allowed, param_kind)
        elif resource.plural in BINDINGS:
            await _binding(asked, lookup, allowed, param_kind)

    return check


def _specs(asked: Admission) -> tuple[Object, Object]:
    return (asked.new or {}).get("spec") or {}, (asked.old or {}).get("spec") or {}


async def _policy(asked: Admission, allowed: Allowed, param_kind: ParamKind) -> None:
    new, old = _specs(asked)
    wanted = new.get("paramKind")
    if wanted is None or wanted == old.get("paramKind"):
        return
    check = _about(asked, wanted, param_kind, "get", "*", "*")
    if not await allowed(asked.scope.caller, check):
        kind = f"(kind={wanted.get('kind') or ''}, apiVersion={wanted.get('apiVersion') or ''})"
        told = f'must have "get" permission on all objects of the referenced paramKind {kind}'
        raise _refused(asked, "paramKind", f"user {_shown(asked.scope.context.user)} {told}")


async def _binding(asked: Admission, lookup: Lookup, allowed: Allowed, param_kind: ParamKind) -> None:
    new, old = _specs(asked)
    wanted, name = new.get("paramRef"), new.get("policyName") or ""
    if wanted is None or (wanted == old.get("paramRef") and name == old.get("policyName")):
        return
    plural = BINDINGS[asked.scope.kind.resource.plural]
    policy = await lookup.get(asked.scope.tenant, GROUP, plural, name)
    kind = ((policy or {}).get("spec") or {}).get("paramKind")
    verb = "get" if wanted.get("name") else "list"
    check = _about(asked, kind, param_kind, verb, wanted.get("name") or "", wanted.get("namespace") or "")
    if await allowed(asked.scope.caller, check):
        return
    user = f"user {_shown(asked.scope.context.user)} does not have"
    if policy is None:
        why = f"unable to get policy {name} to determine minimum required permissions and {user} "
        raise _refused(asked, "paramRef", f'{why}"{verb}" permission for all groups, versions and resources')
    if kind is not None and check.resource == "*":
        about = f"&ParamKind{{APIVersion:{kind.get('apiVersion')},Kind:{kind.get('kind')},}}"
        why = f"unable to resolve paramKind {about} to determine minimum required permissions and {user} "
        raise _refused(asked, "paramRef", f'{why}"{verb}" permission for all groups, versions and resources')
    raise _refused(asked, "paramRef", f'{user} "{verb}" permission on the object referenced by paramRef')


def _about(  # noqa: PLR0917 - one question's parts
    asked: Admission, wanted: Object | None, param_kind: ParamKind, verb: str, name: str, namespace: str
) -> Check:
    """Return what must be allowed: everything, where it is not known what the parameters are."""
    if wanted is None:
        return Check(verb, group="*", resource="*", namespace=namespace, name=name)
    group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
    kind = param_kind(asked.scope.tenant, wanted)
    resource = "*" if kind is None else kind.resource.plural
    return Check(verb, group=group, version=version, resource=resource, namespace=namespace, name=name)


def _shown(user: User) -> str:
    extra = plain({name: list(values) for name, values in user.extra.items()})
    return f"&{{{user.name} {user.uid} {plain(list(user.groups))} {extra}}}"


def _refused(asked: Admission, part: str, why: str) -> errors.StatusError:
    resource = asked.scope.kind.resource
    name = ((asked.new or {}).get("metadata") or {}).get("name") or asked.scope.name
    return errors.invalid(resource.kind, resource.group, name, [errors.not_allowed(f"spec.{part}", why)])
