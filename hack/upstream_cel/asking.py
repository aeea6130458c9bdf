"""Asks a server about expressions: what it says of them in a CustomResourceDefinition, and on an object of that kind.

Each expression is the rule of a property of its own, so that every message has the property's name. The name of the
property is the position of the expression.
"""

import http.client
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hack.parity.ask import Side

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "upstream.example.com"
_PROPERTY = re.compile(r"r(\d+)\b")
_RULE = re.compile(
    r"Invalid value: \{.*?\"OptionalOldSelf\":\w+\}: |Invalid value: \{.*?\}: (?=compilation|cel|program|message)"
)
_SERVED_SECONDS = 60.0
_SECONDS = 90.0
_CREATED, _GONE = 201, 404


@dataclass(frozen=True)
class Question:
    """A rule, and the expression whose text its message shows; empty: none."""

    rule: str
    shown: str = ""


Told = dict[int, tuple[str, ...]]
"""Position of a question -> what the server says of it."""


def about_compiling(side: Side, questions: Sequence[Question]) -> Told:
    """Return what a server says of a definition with these rules."""
    code, body = _ask(side, "POST", f"{_DEFINITIONS}?dryRun=All", _definition("Try", questions))
    return {} if code == _CREATED else _causes(body)


def about_values(side: Side, questions: Sequence[Question]) -> Told:
    """Return what a server says of an object that these rules apply to. All of the rules compile."""
    path = f"/apis/{_GROUP}/v1/namespaces/default/values"
    name = f"{_DEFINITIONS}/values.{_GROUP}"
    _remove(side, name)
    code, body = _ask(side, "POST", _DEFINITIONS, _definition("Value", questions))
    if code != _CREATED:
        return _causes(body)
    ends = time.monotonic() + _SERVED_SECONDS
    while _ask(side, "GET", path)[0] == _GONE and time.monotonic() < ends:
        time.sleep(0.2)
    own = {"apiVersion": f"{_GROUP}/v1", "kind": "Value", "metadata": {"name": "one"}}
    fields = {f"r{at}": 0 for at in range(len(questions))}
    code, body = _ask(side, "POST", f"{path}?dryRun=All", {**own, **fields})
    _remove(side, name)
    return {} if code == _CREATED else _causes(body)


def _remove(side: Side, name: str) -> None:
    ends = time.monotonic() + _SERVED_SECONDS
    while _ask(side, "DELETE", name)[0] != _GONE and time.monotonic() < ends:
        time.sleep(0.2)


def _definition(kind: str, questions: Sequence[Question]) -> dict[str, Any]:
    properties = {
        f"r{at}": {"type": "integer", "x-kubernetes-validations": [_rule(each)]}
        for at, each in enumerate(questions)
    }
    plural = f"{kind.lower()}s" if kind != "Try" else "tries"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": _GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.{_GROUP}"}, "spec": spec}


def _rule(question: Question) -> dict[str, str]:
    rule = {"rule": question.rule, "message": "it is false"}
    return {**rule, "messageExpression": question.shown} if question.shown else rule


def _causes(body: Any) -> Told:
    """Return the messages of a refusal by position. What is about the whole schema is left out."""
    found: dict[int, list[str]] = {}
    causes = (body.get("details") or {}).get("causes") if isinstance(body, dict) else None
    if not causes:
        raise RuntimeError(f"the server answered {str(body)[:500]}")
    for each in causes:
        at = _PROPERTY.search(str(each.get("field")))
        told = _RULE.sub("", str(each.get("message")))
        if at is not None and "contributed to" not in told:
            found.setdefault(int(at[1]), []).append(told)
    return {at: tuple(sorted(told)) for at, told in found.items()}


def _ask(side: Side, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
    where, credentials = urlsplit(side.url), side.users["admin"]
    connection = http.client.HTTPSConnection(where.netloc, context=credentials.context, timeout=_SECONDS)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    try:
        connection.request(verb, where.path + path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text.decode("utf-8", "replace")
