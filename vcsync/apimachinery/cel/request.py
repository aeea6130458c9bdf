"""The variables that admission expressions see of a request: names, types and values.

Source: `BuildRequestType`, `BuildNamespaceType` and `newActivation` of apiserver's `pkg/admission/plugin/cel`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from vcsync.apimachinery.cel.authorizing import Answers, Ask, Authorizer, Check
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.programs import Environment
from vcsync.apimachinery.strategy import Object

_TEXT, _DYN = Declared("string"), Declared("dyn")
_TEXTS = Declared("list", element=_TEXT)
_LABELS = Declared("map", element=_TEXT)
_NAMESPACE_FIELDS = frozenset(
    {
        "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
        "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
    }
)  # fmt: skip
AUTHORIZER = {
    "authorizer": Declared("kubernetes.authorization.Authorizer"),
    "authorizer.requestResource": Declared("kubernetes.authorization.ResourceCheck"),
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """One request, as admission expressions see it.

    Attributes:
        tenant: the tenant whose expressions are evaluated.
        request: an AdmissionRequest without uid, object and oldObject.
        object: the object to be written, in the matched version. None: there is none.
        old_object: the stored object. None: there is none.
        namespace: the object's Namespace. None: the object has none, or expressions do not see it.
        params: the policy's parameters. None: it has none.
        ask: the authorizer. None: expressions do not see it.
    """

    tenant: str
    request: Object
    object: Object | None = None
    old_object: Object | None = None
    namespace: Object | None = None
    params: Object | None = None
    ask: Ask | None = None

    def variables(self) -> dict[str, Any]:
        """Return the values of all variables."""
        found: dict[str, Any] = {
            "object": self.object,
            "oldObject": self.old_object,
            "request": self.request,
            "namespaceObject": None if self.namespace is None else shown_namespace(self.namespace),
            "params": self.params,
        }
        if self.ask is not None:
            authorizer = Authorizer(Answers(self.ask))
            found["authorizer"] = authorizer
            found["authorizer.requestResource"] = authorizer.resource(requested(self.request))
        return found


def requested(request: Mapping[str, Any]) -> Check:
    """Return the check behind `authorizer.requestResource`."""
    resource = request.get("requestResource") or {}
    return Check(
        group=resource.get("group") or "",
        resource=resource.get("resource") or "",
        subresource=request.get("requestSubResource") or "",
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
    )


def shown_namespace(namespace: Object) -> Object:
    """Return the part of a Namespace that expressions see."""
    metadata = namespace.get("metadata") or {}
    return {
        "metadata": {name: value for name, value in metadata.items() if name in _NAMESPACE_FIELDS},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


def _object(title: str, **fields: Declared) -> Declared:
    return Declared("object", title=title, fields={name: (name, type_) for name, type_ in fields.items()})


def _texts(*names: str) -> dict[str, Declared]:
    return dict.fromkeys(names, _TEXT)


def _request() -> Declared:
    kind = _object("GroupVersionKind", **_texts("group", "version", "kind"))
    resource = _object("GroupVersionResource", **_texts("group", "version", "resource"))
    user = _object(
        "UserInfo", **_texts("username", "uid"), groups=_TEXTS, extra=Declared("map", element=_TEXTS)
    )
    return _object(
        "AdmissionRequest",
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        kind=kind,
        requestKind=kind,
        resource=resource,
        requestResource=resource,
        userInfo=user,
        dryRun=Declared("bool"),
        options=_DYN,
    )


def _namespace() -> Declared:
    time = Declared("timestamp")
    metadata = _object(
        "NamespaceMetadata",
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        labels=_LABELS,
        annotations=_LABELS,
        generation=Declared("int"),
        creationTimestamp=time,
        deletionTimestamp=time,
        deletionGracePeriodSeconds=Declared("int"),
        finalizers=_TEXTS,
    )
    condition = _object(
        "NamespaceCondition", **_texts("status", "type", "message", "reason"), lastTransitionTime=time
    )
    return _object(
        "Namespace",
        metadata=metadata,
        spec=_object("NamespaceSpec", finalizers=_TEXTS),
        status=_object("NamespaceStatus", **_texts("phase"), conditions=Declared("list", element=condition)),
    )


def declarations(*, params: bool, authorizer: bool = True) -> dict[str, Declared]:
    """Return the types of the variables that expressions of policies and webhooks see.

    Args:
        params: whether `params` is declared.
        authorizer: whether `authorizer` is declared.
    """
    found = {"object": _DYN, "oldObject": _DYN, "request": _request(), "namespaceObject": _namespace()}
    if params:
        found["params"] = _DYN
    return {**found, **AUTHORIZER} if authorizer else found


@cache
def plain_environment(*, params: bool, authorizer: bool = True) -> Environment:
    """Return the environment of expressions without policy variables."""
    return Environment(declarations(params=params, authorizer=authorizer))
