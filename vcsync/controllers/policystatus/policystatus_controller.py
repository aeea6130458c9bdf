"""Reports type errors of expressions in ValidatingAdmissionPolicies in their status.

Behaviour: Kubernetes' `pkg/controller/validatingadmissionpolicystatus`. The controller reads schemas from the tenant's API
server for each check: policies are rarely written, and the API server also publishes custom resources.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import VALIDATING_ADMISSION_POLICIES
from vcsync.objects.envelope import decode, untyped
from vcsync.patterns.linear import linear

MOST_KINDS = 10
_PART = linear(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""Groups and versions that are valid in a path. Tenants write them."""

Typed = tuple[str, Mapping[str, Any], str]
"""A kind: its name in messages, the schemas of its version by name, and the name of its own schema."""
Check = Callable[[Mapping[str, Any], Sequence[Typed], Typed | None], list[dict[str, str]]]
"""Returns warnings for a policy's spec; arguments: the spec, the matched kinds, and the kind of its parameters."""


class _Rule(Struct, rename="camel"):
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None


class _Constraints(Struct, rename="camel"):
    resource_rules: tuple[_Rule, ...] | None = None


class _ParamKind(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _Spec(Struct, rename="camel"):
    match_constraints: _Constraints | None = None
    param_kind: _ParamKind | None = None


class _Status(Struct, rename="camel"):
    observed_generation: int = 0


class _Listed(Struct):
    name: str = ""
    kind: str = ""


class _Resources(Struct):
    resources: tuple[_Listed, ...] | None = None


class _Components(Struct):
    schemas: dict[str, Any] | None = None


class _Document(Struct):
    components: _Components | None = None


_resources = msgspec.json.Decoder(_Resources).decode
_document = msgspec.json.Decoder(_Document).decode


def type_checking(check: Check) -> Worker:
    """Return the controller.

    Args:
        check: pure and slow; it is called in a thread, for one policy at a time.
    """
    turn = asyncio.Semaphore(1)

    async def work(context: ReconcileContext, key: Key) -> float | None:
        policy = context.view.of[VALIDATING_ADMISSION_POLICIES].get(*key)
        if policy is None or policy.deleting:
            return None
        if policy.generation <= decode(policy.status, _Status).observed_generation:
            return None
        spec = decode(policy.spec, _Spec)
        server = _Published(context.client)
        kinds = await _matched(server, spec)
        params = None
        if spec.param_kind is not None:
            group, _, version = spec.param_kind.api_version.rpartition("/")
            params = await server.typed(group, version, spec.param_kind.kind)
        async with turn:
            found = await asyncio.to_thread(check, untyped(policy.spec), kinds, params)
        status = {"observedGeneration": policy.generation, "typeChecking": {"expressionWarnings": found}}
        patch = {"metadata": {"uid": policy.uid}, "status": status}
        with suppress(NotFound):
            await context.client.patch(VALIDATING_ADMISSION_POLICIES, key.name, patch, subresource="status")
        return None

    return Worker(
        "validatingadmissionpolicy-status-controller",
        (Watch(VALIDATING_ADMISSION_POLICIES, _written),),
        work,
    )


def _written(change: Change, _look: View) -> Iterable[Key]:
    return [] if change.new is None else [key_of(change.new)]


async def _matched(server: "_Published", spec: _Spec) -> list[Typed]:
    """Return the kinds that a policy matches by name, at most ten; wildcards match none."""
    found: dict[tuple[str, str, str], Typed] = {}
    rules = (spec.match_constraints and spec.match_constraints.resource_rules) or ()
    for rule in rules:
        groups, versions = rule.api_groups or (), rule.api_versions or ()
        if "*" in "".join((*groups, *versions)):
            continue
        resources = [each for each in rule.resources or () if not {"*", "/"} & set(each)]
        for group, version, resource in product(sorted(groups), sorted(versions), sorted(resources)):
            if len(found) == MOST_KINDS:
                break
            kind = await server.kind(group, version, resource)
            typed = await server.typed(group, version, kind) if kind else None
            if typed is not None:
                found[group, version, kind] = typed
    return [found[each] for each in sorted(found)]


class _Published:
    """The kinds that a tenant's API server publishes; each version is requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[str, dict[str, str]] = {}
        self._schemas: dict[str, Mapping[str, Any]] = {}

    async def kind(self, group: str, version: str, resource: str) -> str:
        """Return a resource's kind; empty: unknown."""
        path = _path(group, version)
        if path and path not in self._kinds:
            found = _resources(await self._get(path)).resources or ()
            self._kinds[path] = {each.name: each.kind for each in found}
        return self._kinds.get(path, {}).get(resource, "")

    async def typed(self, group: str, version: str, kind: str) -> Typed | None:
        """Return a kind's schema; None: unknown."""
        path = _path(group, version)
        if path and path not in self._schemas:
            components = _document(await self._get(f"/openapi/v3{path}")).components
            self._schemas[path] = (components and components.schemas) or {}
        wanted = {"group": group, "version": version, "kind": kind}
        schemas = self._schemas.get(path, {})
        for name, schema in schemas.items():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()):
                return f"{group}/{version}, Kind={kind}", schemas, name
        return None

    async def _get(self, path: str) -> bytes:
        try:
            return await self._client.request("GET", path)
        except NotFound:
            return b"{}"


def _path(group: str, version: str) -> str:
    """Return the path of a served version of a group; empty: it is not served."""
    if not all(_PART.fullmatch(each) for each in (group, version) if each) or not version:
        return ""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
