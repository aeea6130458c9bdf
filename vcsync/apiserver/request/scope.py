"""The scope of a request, once its tenant, kind and caller are known, and its form for admission."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.strategy import Context, Object
from vcsync.apiserver.request.audit_trail import SILENT, Trail
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.tentative import Tentative

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


async def no_memory_limit(_: int) -> None:
    """Return at once; stands in for `Scope.weigh` where memory is not limited."""


@dataclass(slots=True)
class Scope:
    """One request for one kind.

    Attributes:
        tenant: Tenant of the objects; `all` for reads of system callers in all tenants.
        kind: Kind of the objects.
        context: Tenant, user and time for the rules of the kind.
        namespace: Namespace of the objects. Empty: all namespaces, or a cluster-scoped kind.
        name: Name of the object. Empty: a collection.
        subresource: Subresource, or nothing.
        caller: Caller of the request.
        agent: User-Agent header.
        warnings: Texts of Warning headers.
        audit: Audit trail of the request; takes annotations: `scope.audit.annotate(key, value)`.
        weigh: Waits for memory for a number of bytes of JSON; see `flow.dispatcher.Seat.weigh`.
        began: Monotonic time at which the request began, in seconds.
        size: Bytes of the body, once it has been read.
        stored_size: Bytes of the stored object, once it has been read to be changed.
        exists: Whether the write changes an existing object instead of creating one.
        tentative: What admission did for the object that is to be created.
    """

    tenant: str
    kind: Kind
    context: Context
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    caller: Any = None
    agent: str = ""
    warnings: list[str] = field(default_factory=list)
    audit: Trail = SILENT
    weigh: Callable[[int], Awaitable[None]] = no_memory_limit
    began: float = field(default_factory=time.monotonic)
    size: int = 0
    stored_size: int = 0
    exists: bool = False
    tentative: list[Tentative] = field(default_factory=list)

    @property
    def collection(self) -> str:
        """Prefix of the keys of the collection."""
        resource = self.kind.resource
        return collection_key(self.tenant, resource.key_group, resource.plural, self.namespace)

    def key(self, name: str = "") -> str:
        """Return the key of the object, or of the object `name` of the same collection."""
        resource = self.kind.resource
        return object_key(self.tenant, resource.key_group, resource.plural, self.namespace, name or self.name)

    def warn(self, texts: Sequence[str]) -> None:
        """Add texts of Warning headers."""
        self.warnings.extend(texts)


@dataclass(slots=True)
class MutationPass:
    """One pass of an object through mutating policies and webhooks. There are at most two: the second is reinvocation.

    Attributes:
        is_reinvocation: Whether this is the second pass.
        needs_reinvocation: Whether a policy or webhook changed the object, so that earlier ones must see it again.
        notes: What policies and webhooks remember from the first pass for the second one, by plug-in.
    """

    is_reinvocation: bool = False
    needs_reinvocation: bool = False
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """The attributes of a write for admission plug-ins.

    Attributes:
        scope: Scope of the request.
        operation: Operation of the request.
        name: Name of the object. Empty: not known yet, or a collection.
        new: The new object in its served form, or None for deletions.
        old: The current object in its served form, or None for creations.
        dry_run: Whether nothing will be stored.
        options: CreateOptions, UpdateOptions or DeleteOptions as in the API, without kind and apiVersion.
        mutation: The pass through mutating policies and webhooks.
    """

    scope: Scope
    operation: Operation
    name: str
    new: Object | None
    old: Object | None
    dry_run: bool
    options: Object = field(default_factory=dict)
    mutation: MutationPass = field(default_factory=MutationPass)


Admit = Callable[[Admission], Awaitable[None]]
"""An admission plug-in: changes `new` in place, adds warnings to the scope, or raises StatusError."""
