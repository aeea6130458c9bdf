"""Match conditions of webhooks compiled against what admission's expressions see.

As `BuildRequestType`, `BuildNamespaceType` of apiserver's `pkg/admission/plugin/cel` and
`validateMatchConditionsExpression` of Kubernetes' `pkg/apis/admissionregistration/validation`.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.cel.compiler import NotCompiled, check, environment
from vcsync.controlplane.cel.declared import Declared
from vcsync.controlplane.errors import FieldError

_GROUP = "admissionregistration.k8s.io"
KINDS = ((_GROUP, "MutatingWebhookConfiguration"), (_GROUP, "ValidatingWebhookConfiguration"))
_AUTHORIZER = re.compile(r"\bauthorizer\b")
"""Expressions that ask the authorizer are taken as they are: its methods are not declared."""
_TEXT, _DYN = Declared("string"), Declared("dyn")
_TEXTS = Declared("list", element=_TEXT)
_LABELS = Declared("map", element=_TEXT)


def _object(**fields: Declared) -> Declared:
    return Declared("object", fields={name: (name, type_) for name, type_ in fields.items()})


def _texts(*names: str) -> dict[str, Declared]:
    return dict.fromkeys(names, _TEXT)


@cache
def _environment() -> Any:
    kind = _object(**_texts("group", "version", "kind"))
    resource = _object(**_texts("group", "version", "resource"))
    user = _object(**_texts("username", "uid"), groups=_TEXTS, extra=Declared("map", element=_TEXTS))
    request = _object(
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        kind=kind,
        requestKind=kind,
        resource=resource,
        requestResource=resource,
        userInfo=user,
        dryRun=Declared("bool"),
        options=_DYN,
    )
    time = Declared("timestamp")
    metadata = _object(
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        labels=_LABELS,
        annotations=_LABELS,
        generation=Declared("int"),
        creationTimestamp=time,
        deletionTimestamp=time,
        deletionGracePeriodSeconds=Declared("int"),
    )
    condition = _object(**_texts("status", "type", "message", "reason"), lastTransitionTime=time)
    namespace = _object(
        metadata=metadata,
        spec=_object(finalizers=_TEXTS),
        status=_object(**_texts("phase"), conditions=Declared("list", element=condition)),
    )
    return environment({"object": _DYN, "oldObject": _DYN, "request": request, "namespaceObject": namespace})


def fault(expression: str) -> str:
    """Return what is wrong with a match condition, empty: nothing."""
    if _AUTHORIZER.search(expression):
        return ""
    try:
        output = check(_environment, expression).output
    except NotCompiled as why:
        return f"compilation failed: {why}"
    return "" if output.kind == "bool" else f"must evaluate to bool but got {output}"


def findings(configuration: Object) -> list[FieldError]:
    """Findings on the match conditions of a webhook configuration."""
    found = []
    for position, hook in enumerate(configuration.get("webhooks") or ()):
        for index, each in enumerate(hook.get("matchConditions") or ()):
            expression = (each.get("expression") or "").strip()
            if expression and (told := fault(expression)):
                path = f"webhooks[{position}].matchConditions[{index}].expression"
                found.append(errors.wrong(path, expression, told))
    return found


def _stored(configuration: Object) -> set[str]:
    hooks = configuration.get("webhooks") or ()
    return {each.get("expression") for hook in hooks for each in hook.get("matchConditions") or ()}


def compiled(behaviour: Behaviour) -> Behaviour:
    """Return a webhook configuration's rules with those on what its conditions say."""

    def validate(new: Object) -> list[FieldError]:
        return [*behaviour.validate(new), *findings(new)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        known = behaviour.validate_update(new, old)
        # What is stored was valid once; a rule that came later must not keep other changes out.
        return known if _stored(new) <= _stored(old) else [*known, *findings(new)]

    return replace(behaviour, validate=validate, validate_update=validate_update)
