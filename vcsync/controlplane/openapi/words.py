"""Operations in the words of OpenAPI 2 and 3. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcsync.controlplane.openapi.operations import TEXT, Operation
from vcsync.controlplane.openapi.schemas import PREFIX

Document = dict[str, Any]

REVISION = 1
"""To be raised when what is written here changes: clients keep documents by it."""

BUILTIN_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
CUSTOM_TYPES = ("application/json", "application/yaml")
STREAM_TYPES = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_PATCH_TYPES = tuple(each for each in PATCH_TYPES if "strategic" not in each)

_SAID = {200: "OK", 201: "Created", 202: "Accepted"}
_PARAMETERS: Mapping[str, tuple[str, str]] = {
    "allowWatchBookmarks": ("boolean", "whether a watch may send events of type BOOKMARK"),
    "command": ("string", "the command to run, not in a shell; one parameter for each word"),
    "container": ("string", "the container; may be left out where there is only one"),
    "continue": ("string", "where to go on, as `metadata.continue` of the page before says"),
    "dryRun": ("string", "`All`: do everything but keep the result"),
    "fieldManager": ("string", "the name of who changes fields; needed for apply patches"),
    "fieldSelector": ("string", "only objects whose fields match; all by default"),
    "fieldValidation": (
        "string",
        "what to do about unknown and duplicate fields: `Ignore`, `Warn` (default) or `Strict`",
    ),
    "follow": ("boolean", "whether to go on as the log grows"),
    "force": ("boolean", "whether an apply patch takes over fields that others own"),
    "gracePeriodSeconds": ("integer", "how long the object may take to end; 0: delete it at once"),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("boolean", "delete what cannot be read; dangerous"),
    "insecureSkipTLSVerifyBackend": (
        "boolean",
        "whether to take the log from a node that cannot be identified",
    ),
    "labelSelector": ("string", "only objects whose labels match; all by default"),
    "limit": ("integer", "at most so many objects on one page; no effect on watches"),
    "limitBytes": ("integer", "at most so many bytes of the log"),
    "name": ("string", "name of the object"),
    "namespace": ("string", "namespace of the object"),
    "orphanDependents": ("boolean", "whether dependents stay; deprecated, use propagationPolicy"),
    "path": ("string", "the path of the request to pass on"),
    "ports": ("integer", "the ports to forward"),
    "pretty": ("string", "whether to answer indented, for people"),
    "previous": ("boolean", "whether to answer the log of the container before the last restart"),
    "propagationPolicy": ("string", "what becomes of dependents: `Orphan`, `Background` or `Foreground`"),
    "resourceVersion": ("string", "the version to answer from, or to watch after"),
    "resourceVersionMatch": ("string", "how resourceVersion is meant: `Exact` or `NotOlderThan`"),
    "sendInitialEvents": ("boolean", "whether a watch begins with what is there, ended by a bookmark"),
    "shardSelector": ("string", "only objects of one shard"),
    "sinceSeconds": ("integer", "only what was logged so many seconds ago or later"),
    "stderr": ("boolean", "whether to connect standard error"),
    "stdin": ("boolean", "whether to connect standard input"),
    "stdout": ("boolean", "whether to connect standard output"),
    "stream": ("string", "which stream of the log: `All`, `Stdout` or `Stderr`"),
    "tailLines": ("integer", "only so many lines from the end of the log"),
    "timeoutSeconds": ("integer", "how long the call may take, however active it is"),
    "timestamps": ("boolean", "whether each line begins with its time"),
    "tty": ("boolean", "whether to give the command a terminal"),
    "watch": ("boolean", "whether to watch for changes instead of listing"),
}


def paths(operations: Iterable[Operation], version: int, *, custom: bool = False) -> Document:
    """Write operations as the `paths` of a document."""
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    return {path: _path(found, version, custom) for path, found in by_path.items()}


def _path(found: Sequence[Operation], version: int, custom: bool) -> Document:
    """Write the operations of one path; what they all take is told once."""
    first = found[0]
    common = {name for name in first.parameters if all(name in each.parameters for each in found)}
    shared = (
        common
        | set(first.path_parameters)
        | ({"pretty"} if first.kind[2] and first.action != "connect" else set())
    )
    entry: Document = {}
    if shared:
        told = [(name, name not in first.path_parameters) for name in shared]
        told += [("path", True)] if "path" in common and "path" in first.path_parameters else []
        entry["parameters"] = [_parameter(name, version, in_path=not query) for name, query in sorted(told)]
    for each in found:
        own = [name for name in each.parameters if name not in shared]
        entry[each.method] = (
            _operation2(each, own, custom) if version == 2 else _operation3(each, own, custom)
        )
    return entry


def _parameter(name: str, version: int, *, in_path: bool = False) -> Document:
    kind, description = _PARAMETERS[name]
    told = {"name": name, "in": "path" if in_path else "query", "description": description}
    shape = {"type": kind, "uniqueItems": True}
    return {
        **told,
        **({"required": True} if in_path else {}),
        **(shape if version == 2 else {"schema": shape}),
    }


def _identity(each: Operation) -> Document:
    group, version, kind = each.kind
    if not kind:
        return {}
    return {
        "x-kubernetes-action": each.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }


def _sent(each: Operation, custom: bool) -> tuple[str, ...]:
    if not each.kind[2]:
        return each.types if each.answer != TEXT else ()
    if each.patch:
        return CUSTOM_PATCH_TYPES if custom else PATCH_TYPES
    return CUSTOM_TYPES if custom else ("*/*",)


def _answered(each: Operation, custom: bool) -> tuple[str, ...]:
    if each.types:
        return each.types
    if each.answer == TEXT:
        return ("*/*",) if each.action == "connect" else ("text/plain", *BUILTIN_TYPES)
    if custom:
        return CUSTOM_TYPES
    return (*BUILTIN_TYPES, *STREAM_TYPES) if each.stream else BUILTIN_TYPES


def _schema(definition: str, version: int) -> Document:
    return {"type": "string"} if definition == TEXT else {"$ref": f"{PREFIX[version]}{definition}"}


def _operation2(each: Operation, own: Sequence[str], custom: bool) -> Document:
    sent = _sent(each, custom)
    parameters = [_parameter(name, 2) for name in own]
    if each.body:
        required = each.action not in ("delete", "deletecollection")
        body = {
            "name": "body",
            "in": "body",
            **({"required": True} if required else {}),
            "schema": _schema(each.body, 2),
        }
        parameters.insert(0, body)
    answers: Document = {
        str(code): {"description": _SAID[code], "schema": _schema(each.answer, 2)} for code in each.codes
    }
    return {
        "description": each.description,
        **({"consumes": list(sent)} if sent else {}),
        "produces": list(_answered(each, custom)),
        "schemes": ["https"],
        "tags": [each.tag],
        "operationId": each.id,
        **({"parameters": parameters} if parameters else {}),
        "responses": {**answers, "401": {"description": "Unauthorized"}},
        **_identity(each),
    }


def _operation3(each: Operation, own: Sequence[str], custom: bool) -> Document:
    content = {kind: {"schema": _schema(each.answer, 3)} for kind in _answered(each, custom)}
    answers: Document = {str(code): {"description": _SAID[code], "content": content} for code in each.codes}
    parameters = [_parameter(name, 3) for name in own]
    body: Document = {}
    if each.body:
        sent = {kind: {"schema": _schema(each.body, 3)} for kind in _sent(each, custom)}
        required = each.action not in ("delete", "deletecollection")
        body = {"requestBody": {"content": sent, **({"required": True} if required else {})}}
    return {
        "tags": [each.tag],
        "description": each.description,
        "operationId": each.id,
        **({"parameters": parameters} if parameters else {}),
        **body,
        "responses": {**answers, "401": {"description": "Unauthorized"}},
        **_identity(each),
    }
