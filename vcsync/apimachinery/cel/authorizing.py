"""The variable `authorizer` of admission expressions: the checks that it offers, and how their answers are awaited.

Evaluation on the event loop never waits. A check without a known answer raises `Pending`; the caller awaits the
answer and evaluates again. Source: `pkg/cel/library/authz.go` of k8s.io/apiserver.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from vcsync.apimachinery.cel.values import CelError, NoOverload, Work
from vcsync.apimachinery.validation import names

CHECK_COST = 350_000
"""Cost of one check: an expression can afford two."""


@dataclass(frozen=True, slots=True)
class Check:
    """One authorization check. The attributes are those of `identity.caller.Asked`."""

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
    """The answer to a check. `error` says why there is none."""

    allowed: bool
    reason: str = ""
    error: str = ""
    type_name: ClassVar[str] = "kubernetes.authorization.Decision"


Account = tuple[str, str] | None
"""Namespace and name of the ServiceAccount that the check is about. None: the user who made the request."""
Ask = Callable[[Account, Check], Awaitable[Decision]]


@dataclass(slots=True)
class Answers:
    """The answers known so far for one request."""

    ask: Ask
    known: dict[tuple[Account, Check], Decision] = field(default_factory=dict)


class Pending(Exception):
    """The evaluation needs an answer that is not known yet."""

    def __init__(self, answers: Answers, account: Account, check: Check) -> None:
        super().__init__()
        self._answers, self._account, self._check = answers, account, check

    async def answer(self) -> None:
        """Get the answer, so that the expression can be evaluated again."""
        found = await self._answers.ask(self._account, self._check)
        self._answers.known[self._account, self._check] = found


WAIT: ContextVar[Callable[[Pending], None] | None] = ContextVar("wait", default=None)
"""Blocks until an answer is known, in threads that may block. None: the evaluation must not block."""


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer:
    """The value of the variable `authorizer`."""

    answers: Answers
    account: Account = None
    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"

    def resource(self, check: Check) -> "ResourceCheck":
        """Return a check of one resource: the value of `authorizer.requestResource`."""
        return ResourceCheck(self, check)

    def decision(self, check: Check) -> Decision:
        """Return the answer to a check.

        Raises:
            Pending: the answer is not known yet.
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
    """A check of a URL path."""

    authorizer: Authorizer
    path: str
    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck:
    """A check of an API group, before its resource is named."""

    authorizer: Authorizer
    group: str
    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck:
    """A check of a resource. Label selectors are accepted, but no authorizer evaluates them."""

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
    """Restrict the check by a field selector. Requirements that cannot be parsed are ignored."""
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
"""Implementation of each function, by name."""
