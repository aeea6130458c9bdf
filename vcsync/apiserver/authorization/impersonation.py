"""Impersonation: requests that act as another user by Impersonate-* headers.

Behaviour: apiserver `pkg/endpoints/filters/impersonation` (constrained modes first, then the verb `impersonate`).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.policy import ACCOUNT_PREFIX
from vcsync.apiserver.authorization.protected_groups import is_guarded, is_own
from vcsync.apiserver.request.caller import (
    ANONYMOUS,
    AUTHENTICATED,
    SYSTEM,
    UNAUTHENTICATED,
    Asked,
    Attributes,
    Caller,
    Decision,
    quoted,
    refusal,
)
from vcsync.objects.budget import Budget
from vcsync.objects.recently_used import RecentlyUsed
from vcsync.patterns.linear import linear
from vcsync.process.loop_turns import rest

AUTHENTICATION = "authentication.k8s.io"
NODE_PREFIX = "system:node:"
NODES = "system:nodes"
MAX_WANTED = 1000
"""Groups and extra values that a request may name. Each one is a decision. Directories have users with hundreds of groups."""

DECISION_STEPS = 500
"""Steps of one decision about a user with very many rules. See `vcsync.objects.budget`."""
ASSOCIATED = "associated-node"
NODE_OF_ACCOUNT = "authentication.kubernetes.io/node-name"
_EXTRA = "impersonate-extra-"
_EXTRA_KEY = linear(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[a-z0-9._~!$&'()*+,;=:@%/-]+")
"""Keys of extra that constrained impersonation accepts: a path below a domain, in lower case."""
_LEGACY = "impersonate"
_EVERYTHING = Attributes("*", group="*", resource="*")
"""The permissions of cluster-admin. The right to act as any group does not include becoming an administrator."""

Decide = Callable[[Caller, Asked], Awaitable[Decision]]


@dataclass(slots=True)
class _Headers:
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] | None = None

    def __str__(self) -> str:
        groups = "{" + ", ".join(map(quoted, self.groups)) + "}" if self.groups else "(nil)"
        extra = "(nil)"
        if self.extra is not None:
            items = (
                f"{quoted(key)}:[]string{{" + ", ".join(map(quoted, values)) + "}"
                for key, values in sorted(self.extra.items())
            )
            extra = "{" + ", ".join(items) + "}"
        return (
            f"&user.DefaultInfo{{Name:{quoted(self.user)}, UID:{quoted(self.uid)}, Groups:[]string{groups}, "
            f"Extra:map[string][]string{extra}}}"
        )


def wanted_user(headers: Iterable[tuple[str, str]]) -> User | None:
    """Return the user that the headers name, or None if there are no such headers.

    Raises:
        StatusError: 400, the headers name groups or extra but no user, or too many of them.
    """
    found = _Headers()
    groups: list[str] = []
    count = 0
    for name, value in headers:
        low = name.lower()
        if not low.startswith("impersonate-"):
            continue
        count += 1
        if count > MAX_WANTED:
            raise bad_request(f"requested more than {MAX_WANTED} impersonation headers")
        if not _is_text(value):
            raise bad_request("impersonation headers must be UTF-8")
        if low == "impersonate-user":
            found.user = found.user or value
        elif low == "impersonate-uid":
            found.uid = found.uid or value
        elif low == "impersonate-group":
            groups.append(value)
        elif low.startswith(_EXTRA):
            key = unquote(low[len(_EXTRA) :])
            found.extra = found.extra or {}
            found.extra[key] = (*found.extra.get(key, ()), value)
    found.groups = tuple(groups)
    if found.user:
        return User(found.user, found.uid, found.groups, found.extra or {})
    if found.uid or found.groups or found.extra is not None:
        raise bad_request(f"requested {found} without impersonating a user name")
    return None


def _is_text(value: str) -> bool:
    """Return whether the value of a header was valid UTF-8; invalid bytes arrive as surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


Worked = RecentlyUsed[tuple[str, str], str]
"""The mode in which a user, by tenant and name, could impersonate last. It is tried first."""


async def impersonated(  # noqa: PLR0917  one question
    decide: Decide, caller: Caller, wanted: User, tenant: str, asked: Asked | None, worked: Worked
) -> Caller:
    """Return `wanted` as a caller if `caller` may impersonate it.

    Raises:
        StatusError: 403, the first refusal, as in kube-apiserver.
    """
    first: StatusError | None = None
    decide = _in_turns(decide)
    key = (caller.tenant, caller.user.name)
    modes = [*(_modes(caller, wanted) if asked is not None else ()), _LEGACY]
    before = worked.get(key)
    for mode in sorted(modes, key=lambda each: each != before):
        try:
            user = await _in_mode(decide, caller, wanted, asked, mode)
        except StatusError as error:
            first = first or error
        else:
            worked.put(key, mode)
            return _as_caller(caller, user, tenant, mode)
    assert first is not None  # noqa: S101  there is a mode, and each either returns or refuses
    raise first


def _in_turns(decide: Decide) -> Decide:
    """Return a function that decides, and lets other tasks run between the decisions about hundreds of groups."""
    budget = Budget("the impersonation")

    async def decided(caller: Caller, asked: Asked) -> Decision:
        budget.spend(DECISION_STEPS)
        await rest(budget)
        return await decide(caller, asked)

    return decided


async def _in_mode(decide: Decide, caller: Caller, wanted: User, asked: Asked | None, mode: str) -> User:
    """Return `wanted` with its groups if `caller` may impersonate it in one mode.

    Raises:
        StatusError: 403, it may not.
    """
    if mode == _LEGACY or asked is None:
        return await _check(decide, caller, wanted, _LEGACY, constrained=False)
    await _require(decide, caller, _on(asked, f"impersonate-on:{mode}:{asked.verb}"))
    return await _check(decide, caller, wanted, f"impersonate:{mode}", constrained=True)


def _as_caller(caller: Caller, user: User, tenant: str, mode: str) -> Caller:
    """Return an impersonated user as a caller, which has no rights beyond those of that user."""
    target = tenant if caller.system else caller.tenant
    system, constraint = caller.system and target == SYSTEM, "" if mode == _LEGACY else f"impersonate:{mode}"
    return Caller(user, target, system=system, impersonated=True, constraint=constraint)


def _modes(caller: Caller, wanted: User) -> Iterator[str]:
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    if wanted.name.startswith(NODE_PREFIX):
        own = tuple(caller.user.extra.get(NODE_OF_ACCOUNT, ())) == (wanted.name.removeprefix(NODE_PREFIX),)
        if only_name and own and _account(caller.user.name):
            yield ASSOCIATED
        if only_name:
            yield "arbitrary-node"
    elif _account(wanted.name):
        if only_name:
            yield "serviceaccount"
    else:
        yield "user-info"


def _account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount with a user name."""
    namespace, colon, plain = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    whole = name.startswith(ACCOUNT_PREFIX) and colon and namespace and plain and ":" not in plain
    return (namespace, plain) if whole else None


def _on(asked: Asked, verb: str) -> Attributes:
    return Attributes(
        verb,
        path=asked.path,
        group=asked.group,
        resource=asked.resource,
        subresource=asked.subresource,
        namespace=asked.namespace,
        name=asked.name,
        resource_request=asked.resource_request,
        selected=asked.selected,
    )


async def _require(decide: Decide, caller: Caller, asked: Attributes) -> None:
    decision = await decide(caller, asked)
    if not decision.allowed:
        raise refusal(caller, asked, decision.reason)


async def _check(decide: Decide, caller: Caller, wanted: User, verb: str, *, constrained: bool) -> User:
    """Authorize every part of `wanted`. Returns the user with the groups that its name implies."""
    group = AUTHENTICATION if constrained else ""
    groups = wanted.groups
    whom = Attributes(verb, group=group, resource="users", name=wanted.name)
    account = _account(wanted.name)
    if constrained and wanted.name.startswith(NODE_PREFIX):
        node = "*" if verb.endswith(f":{ASSOCIATED}") else wanted.name.removeprefix(NODE_PREFIX)
        whom = replace(whom, resource="nodes", name=node)
        groups = (NODES,)
    elif account:
        whom = replace(whom, resource="serviceaccounts", namespace=account[0], name=account[1])
        groups = groups or account_groups(account[0])
    await _require(decide, caller, whom)
    if wanted.uid:
        await _require(
            decide, caller, Attributes(verb, group=AUTHENTICATION, resource="uids", name=wanted.uid)
        )
    for asked in _group_questions(caller, wanted, verb, group, constrained=constrained):
        await _require(decide, caller, asked)
        if is_own(asked.name) and not (await decide(caller, _EVERYTHING)).allowed:
            raise refusal(
                caller, asked, f"only callers with all permissions may act as the {_shown(asked.name)} group"
            )
    for key, values in wanted.extra.items():
        if constrained and not (_EXTRA_KEY.fullmatch(key) and all(values)):
            extra = Attributes(verb, group=AUTHENTICATION, resource="userextras")
            raise refusal(caller, extra, "impersonating an invalid key in extra is not allowed")
        for value in values:
            extra = Attributes(verb, group=AUTHENTICATION, resource="userextras", subresource=key, name=value)
            await _require(decide, caller, extra)
    if wanted.name == ANONYMOUS:
        groups = with_group(groups, UNAUTHENTICATED)
    elif UNAUTHENTICATED not in groups:
        groups = with_group(groups, AUTHENTICATED)
    return replace(wanted, groups=groups)


def _group_questions(
    caller: Caller, wanted: User, verb: str, group: str, *, constrained: bool
) -> Iterator[Attributes]:
    """Yield the attributes to authorize for groups. Constrained impersonation excludes some groups."""
    base = Attributes(verb, group=group, resource="groups")
    if constrained and "" in wanted.groups:
        raise refusal(caller, base, "impersonating the empty string group is not allowed")
    for each in wanted.groups if constrained else ():
        if is_guarded(each):
            raise refusal(
                caller, replace(base, name=each), f"impersonating the {_shown(each)} group is not allowed"
            )
    for each in wanted.groups:
        yield replace(base, name=each)


def _shown(group: str) -> str:
    return group if group.isprintable() else quoted(group)


def account_groups(namespace: str) -> tuple[str, str]:
    """Return the groups of every ServiceAccount of a namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def with_group(groups: tuple[str, ...], group: str) -> tuple[str, ...]:
    """Return groups with a group added unless it is among them."""
    return groups if group in groups else (*groups, group)
