"""Content negotiation: the formats of answers and request bodies. Pure.

The behaviour is that of apiserver's `endpoints/handlers/negotiation`, go-restful's routing by Accept (which comes first
for built-in resources) and goautoneg's order of clauses. CBOR is not served: clients that prefer it fall back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from vcsync.apimachinery.errors import StatusError, not_acceptable, unsupported_media_type

Format = Literal["json", "yaml", "protobuf"]

MEDIA_TYPES: Mapping[Format, str] = {
    "json": "application/json",
    "yaml": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
STREAM_TYPES: Mapping[Format, str] = {
    "json": "application/json;stream=watch",
    "protobuf": "application/vnd.kubernetes.protobuf;stream=watch",
}

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

PARTIAL_KINDS = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList"})
META_VERSIONS = frozenset({"v1", "v1beta1"})
DISCOVERY_VERSIONS = ("v2",)
TRUE_TEXTS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""Texts that Go's strconv.ParseBool accepts as true."""
BROWSERS = ("curl", "Wget", "Mozilla/5.0")
MAX_ACCEPT = 4096
"""Characters of an Accept header that are evaluated."""


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of an answer.

    Attributes:
        format: Format of the bytes.
        target: Kind of `meta.k8s.io` to convert the answer to, or empty.
        version: Version of the target.
        pretty: Whether to indent JSON.
    """

    format: Format
    target: str = ""
    version: str = ""
    pretty: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type of a single answer."""
        return MEDIA_TYPES[self.format]

    @property
    def stream_type(self) -> str:
        """The Content-Type of a watch."""
        return MEDIA_TYPES["json"] if self.format == "json" else STREAM_TYPES[self.format]


class Clause(NamedTuple):
    """One clause of an Accept header."""

    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]


@lru_cache(maxsize=512)
def accepted(
    accept: str,
    *,
    custom: bool = False,
    watch: bool = False,
    transforms: bool = True,
    tables: bool = True,
    lists: bool = True,
) -> Representation:
    """Choose the form of an answer.

    Args:
        accept: Value of the header; empty: it is absent.
        custom: Whether this is a custom resource, which has no protobuf encoding except for partial metadata.
        watch: Whether this is a watch, which is not available in YAML.
        transforms: Whether Tables and partial objects are available (not for discovery).
        tables: Whether the resource has Tables. Reviews, tokens and other create-only resources have none.
        lists: Whether this is a list. The message of its refusal differs.

    Raises:
        StatusError: 406.
    """
    header = accept[:MAX_ACCEPT]
    if not custom and header and not _routed(header, MEDIA_TYPES.values()):
        raise _not_routed([*MEDIA_TYPES.values(), *(STREAM_TYPES.values() if lists else ())])
    for clause in _clauses(header or "*/*"):
        for form in MEDIA_TYPES:
            if _matches(clause, form):
                found = _offered(clause.parameters, form, custom=custom, transforms=transforms, tables=tables)
                if found is not None and not (watch and form == "yaml"):
                    return found
                if found is not None:
                    raise _only(STREAM_TYPES)
    raise _only(STREAM_TYPES if watch else MEDIA_TYPES)


@lru_cache(maxsize=64)
def discovery(accept: str) -> tuple[Representation, str]:
    """Choose between the legacy and the aggregated discovery document.

    Returns:
        The form of the answer, and the version of `apidiscovery.k8s.io` (empty: the legacy document).

    Raises:
        StatusError: 406.
    """
    for clause in _clauses(accept[:MAX_ACCEPT] or "*/*"):
        wanted = clause.parameters
        aggregated = wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("g") == "apidiscovery.k8s.io"
        for form in MEDIA_TYPES:
            if not _matches(clause, form):
                continue
            if aggregated and wanted.get("v") in DISCOVERY_VERSIONS and form == "json":
                return Representation(form), wanted["v"]
            found = _offered(wanted, form, custom=False, transforms=False, tables=False)
            if found is not None:
                return found, ""
    raise _only(MEDIA_TYPES)


def first_of(accept: str, offered: Mapping[str, str]) -> str | None:
    """Return the value of `offered` for the first clause that matches one of its media types, or None."""
    for clause in _clauses(accept[:MAX_ACCEPT] or "*/*"):
        for media_type, found in offered.items():
            kind, _, subtype = media_type.partition("/")
            if clause.type in ("*", kind) and clause.subtype in ("*", subtype):
                return found
    return None


def plain_json(accept: str) -> None:
    """Check that the client accepts JSON, for answers that exist only as JSON.

    Raises:
        StatusError: 406.
    """
    header = accept[:MAX_ACCEPT]
    if header and not _routed(header, (MEDIA_TYPES["json"],)):
        raise _not_routed([MEDIA_TYPES["json"]])


def wants_pretty(query: str | None, user_agent: str) -> bool:
    """Return whether to indent JSON, by the query parameter `pretty`, or for a tool of a human user."""
    if query:
        return query in TRUE_TEXTS
    return user_agent.startswith(BROWSERS)


def body_format(content_type: str) -> Format:
    """Return the format of the body of a request. Without a Content-Type it is JSON.

    Raises:
        StatusError: 415.
    """
    media_type = (content_type or MEDIA_TYPES["json"]).partition(";")[0].strip().lower()
    for form, known in MEDIA_TYPES.items():
        if media_type == known:
            return form
    raise _unknown_body(list(MEDIA_TYPES.values()))


def patch_type(content_type: str, *, custom: bool = False) -> str:
    """Return the type of the patch in a PATCH request: one of the `*_PATCH` constants.

    Raises:
        StatusError: 415.
    """
    media_type = content_type.partition(";")[0]
    choices = CUSTOM_PATCH_TYPES if custom else PATCH_TYPES
    if media_type in choices:
        return media_type
    if custom:
        raise _unknown_body(choices)
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", empty_details=True)


def _offered(
    parameters: Mapping[str, str], form: Format, *, custom: bool, transforms: bool, tables: bool
) -> Representation | None:
    """Return the form for a clause that names this format, or None if it is not available."""
    if parameters.get("stream", "") not in ("", "watch") or (parameters.get("stream") and form == "yaml"):
        return None
    if parameters.get("sv", "") not in ("", "v1"):
        return None
    pretty = parameters.get("pretty") == "1"
    if not parameters.keys() & {"as", "g", "v"}:
        return None if custom and form == "protobuf" else Representation(form, pretty=pretty)
    target, version = parameters.get("as", ""), parameters.get("v", "")
    known = parameters.get("g", "") == "meta.k8s.io" and version in META_VERSIONS
    if (
        transforms
        and known
        and (target in PARTIAL_KINDS or (tables and target == "Table" and form != "protobuf"))
    ):
        return Representation(form, target, version, pretty)
    return None


def _matches(clause: Clause, form: Format) -> bool:
    kind, _, subtype = MEDIA_TYPES[form].partition("/")
    if clause.subtype == "*":
        return clause.type in ("*", kind)
    return clause.type == kind and clause.subtype == subtype


def _routed(header: str, offered: Iterable[str]) -> bool:
    """Return whether go-restful would select a route. It compares whole media types without parameters."""
    kinds = {each.partition(";")[0].strip(" ") for each in header.split(",")}
    return bool(kinds & {"*/*", *offered})


def _clauses(header: str) -> list[Clause]:
    clauses = [clause for each in header.split(",") if (clause := _clause(each.strip(" ")))]
    # Go sorts short slices by insertion. The order of clauses is not transitive, so the algorithm matters.
    for end in range(1, len(clauses)):
        at = end
        while at > 0 and _before(clauses[at], clauses[at - 1]):
            clauses[at], clauses[at - 1] = clauses[at - 1], clauses[at]
            at -= 1
    return clauses


def _clause(text: str) -> Clause | None:
    media_type, *rest = text.split(";")
    kind, slash, subtype = media_type.partition("/")
    kind, subtype = kind.strip(" "), subtype.strip(" ")
    if kind == "*" and not slash:
        subtype = "*"
    if not subtype or "/" in subtype:
        return None
    parameters, quality = {}, 1.0
    for each in rest:
        key, _, value = each.partition("=")
        key, value = key.strip(" "), value.strip(" ")
        if not value or "=" in value:
            continue
        if key == "q":
            quality = _quality(value)
        else:
            parameters[key] = value
    return Clause(kind, subtype, quality, parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _before(one: Clause, other: Clause) -> bool:
    return (
        one.quality > other.quality
        or (one.type != "*" and other.type == "*")
        or (one.subtype != "*" and other.subtype == "*")
    )


def _only(types: Mapping[Format, str]) -> StatusError:
    return not_acceptable(f"only the following media types are accepted: {', '.join(types.values())}")


def _not_routed(offered: Sequence[str]) -> StatusError:
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return StatusError(406, "NotAcceptable", message, empty_details=True)


def _unknown_body(types: Sequence[str]) -> StatusError:
    known = ", ".join(types)
    return unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {known}"
    )
