"""The `authorizer` of admission's expressions: what may be asked of it, and how its answers are awaited.

On the event loop evaluation does not wait: a check whose answer is not known yet raises `Pending`; whoever evaluates
gets the answer and evaluates again. Behaviour: `pkg/cel/library/authz.go` of k8s.io/apiserver.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from vcsync.controlplane.cel.values import CelError, NoOverload, Work
from vcsync.controlplane.kinds import names

CHECK_COST = 350_000
"""Of one check: an expression can afford two."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is asked; the attributes are those of `identity.caller.Asked`."""

    verb: str = ""
    path: str = ""
    group: str = ""
    version: str = "*"
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    resource_request: bool = True
    selected: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer; `error`: why there is none."""

    allowed: bool
    reason: str = ""
    error: str = ""
    type_name: ClassVar[str] = "kubernetes.authorization.Decision"


Account = tuple[str, str] | None
"""Namespace and name of the ServiceAccount that is asked for; None: who made the request."""
Ask = Callable[[Account, Check], Awaitable[Decision]]


@dataclass(slots=True)
class Answers:
    """What is known already of one request."""

    ask: Ask
    known: dict[tuple[Account, Check], Decision] = field(default_factory=dict)


class Pending(Exception):
    """An answer is needed first."""

    def __init__(self, answers: Answers, account: Account, check: Check) -> None:
        super().__init__()
        self._answers, self._account, self._check = answers, account, check

    async def answer(self) -> None:
        """Get the answer; evaluate again then."""
        found = await self._answers.ask(self._account, self._check)
        self._answers.known[self._account, self._check] = found


WAIT: ContextVar[Callable[[Pending], None] | None] = ContextVar("wait", default=None)
"""Waits for an answer, where an evaluation may; None: it may not."""


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer:
    """The value of `authorizer`."""

    answers: Answers
    account: Account = None
    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"

    def resource(self, check: Check) -> "ResourceCheck":
        """Return what asks about one resource: the value of `authorizer.requestResource`."""
        return ResourceCheck(self, check)

    def decision(self, check: Check) -> Decision:
        """Return the answer.

        Raises:
            Pending: it is not known.
        """
        found = self.answers.known.get((self.account, check))
        if found is not None:
            return found
        pending, wait = Pending(self.answers, self.account, check), WAIT.get()
        if wait is None:
            raise pending
        wait(pending)
        return self.answers.known[self.account, check]


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck:
    """Asks about a path."""

    authorizer: Authorizer
    path: str
    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck:
    """Asks about a group's resources."""

    authorizer: Authorizer
    group: str
    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck:
    """Asks about a resource. Label selectors are taken, but no authorizer looks at them."""

    authorizer: Authorizer
    check: Check
    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoOverload
    return value


def _path(_: Work, target: Any, path: Any) -> PathCheck:
    if not isinstance(target, Authorizer):
        raise NoOverload
    if not _text(path).strip():
        raise CelError("path must not be empty")
    return PathCheck(target, path)


def _group(_: Work, target: Any, group: Any) -> GroupCheck:
    if not isinstance(target, Authorizer):
        raise NoOverload
    return GroupCheck(target, _text(group))


def _service_account(_: Work, target: Any, namespace: Any, name: Any) -> Authorizer:
    if not isinstance(target, Authorizer):
        raise NoOverload
    if names.dns_subdomain(_text(name)):
        raise CelError("Invalid service account name")
    if names.dns_label(_text(namespace)):
        raise CelError("Invalid service account namespace")
    return replace(target, account=(namespace, name))


def _resource(_: Work, target: Any, resource: Any) -> ResourceCheck:
    if not isinstance(target, GroupCheck):
        raise NoOverload
    if not _text(resource).strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(target.authorizer, Check(group=target.group, resource=resource))


def _narrowed(attribute: str) -> Callable[..., ResourceCheck]:
    def narrow(_: Work, target: Any, value: Any) -> ResourceCheck:
        if not isinstance(target, ResourceCheck):
            raise NoOverload
        told = {attribute: _text(value)}
        return ResourceCheck(target.authorizer, replace(target.check, **told))  # type: ignore[arg-type]

    return narrow


def _labelled(_: Work, target: Any, selector: Any) -> ResourceCheck:
    if not isinstance(target, ResourceCheck):
        raise NoOverload
    _text(selector)
    return target


def _selected(_: Work, target: Any, selector: Any) -> ResourceCheck:
    """Ask about what a field selector selects; what cannot be read is as if it were not there."""
    if not isinstance(target, ResourceCheck):
        raise NoOverload
    fields = []
    for each in _text(selector).split(","):
        name, sign, value = each.partition("=")
        if not sign:
            return target
        if not name.endswith("!"):
            fields.append((name.strip(), value.removeprefix("=").strip()))
    return ResourceCheck(target.authorizer, replace(target.check, selected=tuple(fields)))


def _check(_: Work, target: Any, verb: Any) -> Decision:
    if isinstance(target, PathCheck):
        return target.authorizer.decision(Check(_text(verb), path=target.path, resource_request=False))
    if isinstance(target, ResourceCheck):
        return target.authorizer.decision(replace(target.check, verb=_text(verb)))
    raise NoOverload


def _told(read: Callable[[Decision], Any]) -> Callable[..., Any]:
    def tell(_: Work, target: Any) -> Any:
        if not isinstance(target, Decision):
            raise NoOverload
        return read(target)

    return tell


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "path": _path,
    "group": _group,
    "serviceAccount": _service_account,
    "resource": _resource,
    **{each: _narrowed(each) for each in ("subresource", "namespace", "name")},
    "fieldSelector": _selected,
    "labelSelector": _labelled,
    "check": _check,
    "allowed": _told(lambda decision: decision.allowed),
    "reason": _told(lambda decision: decision.reason),
    "errored": _told(lambda decision: bool(decision.error)),
    "error": _told(lambda decision: decision.error),
}
"""Name -> implementation."""
