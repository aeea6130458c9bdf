"""Lists the operations of a resource, independently of the version of OpenAPI. Pure.

Paths, identifiers, actions, parameters and responses are those of kube-apiserver (`endpoints/installer.go`), including
the deprecated `/watch/` paths.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.resources import Resource, Subresource

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
TEXT = "string"
"""Stands for a definition if the response is plain text."""

LISTING = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch",
)  # fmt: skip
WRITING = ("dryRun", "fieldManager", "fieldValidation")
PATCHING = ("dryRun", "fieldManager", "fieldValidation", "force")
DELETING = (
    "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
    "propagationPolicy",
)  # fmt: skip
COLLECTING = tuple(sorted({*LISTING, *DELETING} - {"allowWatchBookmarks", "watch"}))
CONNECTING: Mapping[str, tuple[str, ...]] = {
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "portforward": ("ports",),
    "proxy": ("path",),
}
LOGGING = (
    "container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "pretty", "previous", "sinceSeconds",
    "stream", "tailLines", "timestamps",
)  # fmt: skip
PROXY_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
RETURNED_ON_DELETION = frozenset(
    {"pods", "persistentvolumes", "persistentvolumeclaims", "podtemplates", "resourcequotas", "serviceaccounts", "services",
     "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
     "deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}
)  # fmt: skip
"""Plurals of the resources whose deletion returns the object instead of a Status."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        path: Path with placeholders.
        method: HTTP method in lower case.
        id: Identifier of the operation.
        description: Description for users.
        action: Value of `x-kubernetes-action`.
        kind: Group, version and kind of the object, or three empty texts.
        tag: Tag of the operation.
        path_parameters: Those of `name`, `namespace` and `path` that the path contains.
        parameters: Names of the query parameters.
        body: Definition of the body. Empty: the request has no body.
        patch: Whether the body is a patch.
        response: Definition of the response.
        codes: HTTP status codes besides 401.
        stream: Whether the response can be a stream of watch events.
        types: Media types of the response if they differ from the usual ones.
    """

    path: str
    method: str
    id: str
    description: str
    action: str
    kind: tuple[str, str, str]
    tag: str
    path_parameters: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    body: str = ""
    patch: bool = False
    response: str = ""
    codes: tuple[int, ...] = (200,)
    stream: bool = False
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the definitions of a resource's object and list."""

    object: str
    list: str


def operations(
    resource: Resource, names: Names, kinds: Mapping[tuple[str, str, str], str], *, watches: bool = True
) -> Iterator[Operation]:
    """Yield the operations of a resource.

    Args:
        resource: The resource in one version.
        names: Names of its definitions.
        kinds: (group, version, kind) of subresources -> name of the definition.
        watches: Whether to include the deprecated `/watch/` paths.
    """
    builder = _OperationBuilder(resource, names)
    yield from builder.collection()
    if watches and "watch" in resource.verbs:
        yield from builder.watches()
    yield from builder.item()
    for each in resource.subresources.values():
        if each.name in CONNECTING:
            yield from builder.connect(each)
        else:
            yield from builder.subresource(each, kinds[each.group, each.version, each.kind])


def tag(group: str, version: str = "") -> str:
    """Return the tag of a group's operations: `core_v1`, `rbacAuthorization_v1`."""
    name = _identifier(group.removesuffix(".k8s.io") or "core")
    return f"{name}_{_identifier(version)}" if version else name


def _identifier(text: str, *, upper: bool = False) -> str:
    """Join the words of a text, with capitals, as `ToValidOperationID` of apiserver's endpoints/openapi does.

    `upper`: the first one begins with a capital, too.
    """
    made = ""
    for at, each in enumerate(text):
        if each.isalpha() or each == "_" or (at and each.isdecimal()):
            made += each.upper() if upper else each
            upper = False
        else:
            upper = True
    return made


def _with_article(noun: str) -> str:
    """Return a kind with its article. Plurals have none (`GetArticleForNoun` of apiserver's endpoints)."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"


class _OperationBuilder:
    """Builds the operations of one resource.

    Args:
        resource: The resource in one version.
        names: Names of its definitions.
    """

    def __init__(self, resource: Resource, names: Names) -> None:
        self.resource = resource
        self.names = names
        self.root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        self.scope = "namespaces/{namespace}/" if resource.namespaced else ""
        self.scope_word = "Namespaced" if resource.namespaced else ""
        self.one = _with_article(resource.kind)
        group = resource.group.removesuffix(".k8s.io") or "core"
        self.group_word = _identifier(group, upper=True) + _identifier(resource.version, upper=True)

    def make(
        self,
        path: str,
        method: str,
        verb: str,
        description: str,
        *,
        action: str = "",
        suffix: str = "",
        scope: str | None = None,
        **rest: Any,
    ) -> Operation:
        resource = self.resource
        scope = self.scope_word if scope is None else scope
        lead, _, tail = verb.partition("|")
        rest.setdefault("kind", (resource.group, resource.version, resource.kind))
        return Operation(
            path=f"{self.root}/{path}",
            method=method,
            id=f"{lead}{self.group_word}{_identifier(f'{tail}{scope}{resource.kind}{suffix}', upper=True)}",
            description=description,
            action=action or method,
            tag=tag(resource.group, resource.version),
            path_parameters=tuple(each for each in ("name", "namespace", "path") if f"{{{each}}}" in path),
            **rest,
        )

    def collection(self) -> Iterator[Operation]:
        resource, kind = self.resource, self.resource.kind
        path = f"{self.scope}{resource.plural}"
        verbs = resource.verbs
        if "list" in verbs:
            listing: dict[str, Any] = {
                "action": "list",
                "parameters": LISTING,
                "response": self.names.list,
                "stream": True,
            }
            action = "list or watch" if "watch" in verbs else "list"
            yield self.make(path, "get", "list", f"{action} objects of kind {kind}", **listing)
            if resource.namespaced:
                everywhere = {**listing, "suffix": "ForAllNamespaces", "scope": ""}
                yield self.make(
                    resource.plural, "get", "list", f"{action} objects of kind {kind}", **everywhere
                )
        if "create" in verbs:
            yield self.make(
                path, "post", "create", f"create {self.one}", parameters=WRITING, body=self.names.object,
                response=self.names.object, codes=(200, 201, 202),
            )  # fmt: skip
        if "deletecollection" in verbs:
            yield self.make(
                path, "delete", "delete|Collection", f"delete collection of {kind}", action="deletecollection",
                parameters=COLLECTING, body=f"{META}DeleteOptions", response=f"{META}Status",
            )  # fmt: skip

    def watches(self) -> Iterator[Operation]:
        kind = self.resource.kind
        path = f"{self.scope}{self.resource.plural}"
        rest: dict[str, Any] = {"parameters": LISTING, "response": f"{META}WatchEvent", "stream": True}
        instead = "deprecated: use the 'watch' parameter with a list operation instead"
        many = f"watch individual changes to a list of {kind}. {instead}."
        one = (
            f"watch changes to an object of kind {kind}. {instead}, filtered to a single item with the 'fieldSelector'"
            " parameter."
        )
        yield self.make(f"watch/{path}", "get", "watch", many, action="watchlist", suffix="List", **rest)
        yield self.make(f"watch/{path}/{{name}}", "get", "watch", one, action="watch", **rest)
        if self.resource.namespaced:
            everywhere = {"suffix": "ListForAllNamespaces", "scope": "", **rest}
            yield self.make(
                f"watch/{self.resource.plural}", "get", "watch", many, action="watchlist", **everywhere
            )

    def item(self) -> Iterator[Operation]:
        kind, verbs = self.resource.kind, self.resource.verbs
        path = f"{self.scope}{self.resource.plural}/{{name}}"
        itself = self.names.object
        if "get" in verbs:
            yield self.make(path, "get", "read", f"read the specified {kind}", response=itself)
        if "update" in verbs:
            yield self.make(
                path, "put", "replace", f"replace the specified {kind}", parameters=WRITING, body=itself, response=itself,
                codes=(200, 201),
            )  # fmt: skip
        if "delete" in verbs:
            response = itself if self.resource.plural in RETURNED_ON_DELETION else f"{META}Status"
            yield self.make(
                path, "delete", "delete", f"delete {self.one}", parameters=DELETING,
                body=f"{META}DeleteOptions", response=response, codes=(200, 202),
            )  # fmt: skip
        if "patch" in verbs:
            yield self.make(
                path, "patch", "patch", f"partially update the specified {kind}", parameters=PATCHING,
                body=f"{META}Patch", patch=True, response=itself, codes=(200, 201),
            )  # fmt: skip

    def subresource(self, sub: Subresource, definition: str) -> Iterator[Operation]:
        kind = self.resource.kind
        path = f"{self.scope}{self.resource.plural}/{{name}}/{sub.name}"
        rest: dict[str, Any] = {
            "suffix": _identifier(sub.name, upper=True),
            "kind": (sub.group, sub.version, sub.kind),
        }
        if "get" in sub.verbs:
            log = {"response": TEXT, "parameters": LOGGING} if sub.name == "log" else {"response": definition}
            yield self.make(path, "get", "read", f"read {sub.name} of the specified {kind}", **rest, **log)
        if "update" in sub.verbs:
            yield self.make(
                path, "put", "replace", f"replace {sub.name} of the specified {kind}", parameters=WRITING,
                body=definition, response=definition, codes=(200, 201), **rest,
            )  # fmt: skip
        if "create" in sub.verbs:
            yield self.make(
                path, "post", "create", f"create {sub.name} of {self.one}", parameters=WRITING,
                body=definition, response=definition, codes=(200, 201, 202), **rest,
            )  # fmt: skip
        if "patch" in sub.verbs:
            yield self.make(
                path, "patch", "patch", f"partially update {sub.name} of the specified {kind}", parameters=PATCHING,
                body=f"{META}Patch", patch=True, response=definition, codes=(200, 201), **rest,
            )  # fmt: skip

    def connect(self, sub: Subresource) -> Iterator[Operation]:
        path = f"{self.scope}{self.resource.plural}/{{name}}/{sub.name}"
        proxy = sub.name == "proxy"
        for where, more in ((path, ""), (f"{path}/{{path}}", "WithPath"))[: 2 if proxy else 1]:
            for method in PROXY_METHODS if proxy else ("get", "post"):
                yield self.make(
                    where, method, f"connect|{method.capitalize()}",
                    f"connect {method.upper()} requests to {sub.name} of {self.resource.kind}", action="connect",
                    suffix=f"{_identifier(sub.name, upper=True)}{more}", parameters=CONNECTING[sub.name], response=TEXT,
                    kind=(sub.group, sub.version, sub.kind),
                )  # fmt: skip
