"""In which form an answer goes out and a body comes in. Pure.

Behaviour: apiserver's `endpoints/handlers/negotiation`, go-restful's routing by Accept (which comes first for
built-in resources) and goautoneg's order of clauses. CBOR is not served: clients that prefer it fall back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from vcsync.controlplane.errors import StatusError, not_acceptable, unsupported_media_type

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
"""What Go's strconv.ParseBool takes for true."""
BROWSERS = ("curl", "Wget", "Mozilla/5.0")
MAX_ACCEPT = 4096
"""Characters of an Accept header that are read."""


@dataclass(frozen=True, slots=True)
class Representation:
    """How an answer is written.

    Attributes:
        format: of the bytes.
        target: kind of `meta.k8s.io` that the answer is turned into, or empty.
        version: of the target.
        pretty: whether JSON is indented.
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
    """Choose how to answer.

    Args:
        accept: the header's value; empty if there is none.
        custom: whether the resource is a custom one: it has no protobuf, except as partial metadata.
        watch: whether a stream of events is asked for; there is none in YAML.
        transforms: whether Tables and partial objects are to be had here (not from discovery).
        tables: whether the resource has Tables: reviews, tokens and other things that are only made have none.
        lists: whether the route lists (the words of its refusal differ).

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
        how to answer, and the version of `apidiscovery.k8s.io` (empty: the legacy document).

    Raises:
        StatusError: 406.
    """
    for clause in _clauses(accept[:MAX_ACCEPT] or "*/*"):
        asked = clause.parameters
        aggregated = asked.get("as") == "APIGroupDiscoveryList" and asked.get("g") == "apidiscovery.k8s.io"
        for form in MEDIA_TYPES:
            if not _matches(clause, form):
                continue
            if aggregated and asked.get("v") in DISCOVERY_VERSIONS and form == "json":
                return Representation(form), asked["v"]
            found = _offered(asked, form, custom=False, transforms=False, tables=False)
            if found is not None:
                return found, ""
    raise _only(MEDIA_TYPES)


def first_of(accept: str, offered: Mapping[str, str]) -> str | None:
    """Return what is offered for the first clause that names any of the offered media types; None: none does."""
    for clause in _clauses(accept[:MAX_ACCEPT] or "*/*"):
        for media_type, found in offered.items():
            kind, _, subtype = media_type.partition("/")
            if clause.type in ("*", kind) and clause.subtype in ("*", subtype):
                return found
    return None


def plain_json(accept: str) -> None:
    """Refuse whoever does not take JSON, where there is nothing else.

    Raises:
        StatusError: 406.
    """
    header = accept[:MAX_ACCEPT]
    if header and not _routed(header, (MEDIA_TYPES["json"],)):
        raise _not_routed([MEDIA_TYPES["json"]])


def wants_pretty(query: str | None, user_agent: str) -> bool:
    """Tell whether JSON goes out indented, by the query parameter `pretty` or for a human's tool."""
    if query:
        return query in TRUE_TEXTS
    return user_agent.startswith(BROWSERS)


def body_format(content_type: str) -> Format:
    """Return the format of a request's body; without a Content-Type it is JSON.

    Raises:
        StatusError: 415.
    """
    media_type = (content_type or MEDIA_TYPES["json"]).partition(";")[0].strip().lower()
    for form, known in MEDIA_TYPES.items():
        if media_type == known:
            return form
    raise _unknown_body(list(MEDIA_TYPES.values()))


def patch_type(content_type: str, *, custom: bool = False) -> str:
    """Return which kind of patch a PATCH request's body is: one of the `*_PATCH` constants.

    Raises:
        StatusError: 415.
    """
    found = content_type.partition(";")[0]
    choices = CUSTOM_PATCH_TYPES if custom else PATCH_TYPES
    if found in choices:
        return found
    if custom:
        raise _unknown_body(choices)
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", empty_details=True)


def _offered(
    parameters: Mapping[str, str], form: Format, *, custom: bool, transforms: bool, tables: bool
) -> Representation | None:
    """Return what a clause that names this format gets, None: it cannot be had so."""
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
    """Tell whether go-restful would pick a route: it compares whole media types without parameters."""
    kinds = {each.partition(";")[0].strip(" ") for each in header.split(",")}
    return bool(kinds & {"*/*", *offered})


def _clauses(header: str) -> list[Clause]:
    clauses = [clause for each in header.split(",") if (clause := _clause(each.strip(" ")))]
    # Go's sort of so few is an insertion sort; its order of clauses is not transitive, so the steps matter.
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
