"""Reads the discovery documents of aggregated API servers: only what is well-formed reaches clients. Pure.

Controllers and clients make paths of the names in these documents, so that names with other characters are left out.
Behaviour: apiserver's `pkg/endpoints/installer.go` (`ConvertGroupVersionIntoToDiscovery`).
"""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from vcsync.patterns.linear import linear

MOST_RESOURCES = 1000
"""Resources and subresources of one group and version."""
_RESOURCE = linear(r"[a-zA-Z0-9][-._a-zA-Z0-9]{0,252}")
_SUBRESOURCE = linear(r"[!$&'()*+,;=:@|~a-zA-Z0-9._-]{1,253}(?:/[!$&'()*+,;=:@|~a-zA-Z0-9._-]{1,253})*")
_NAME = linear(r"[-._a-zA-Z0-9]{0,253}")
_QUERY = linear(r"[-.~%_=&a-zA-Z0-9]{0,256}")


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None

    def is_clean(self) -> bool:
        """Tell whether all names but the first are well-formed."""
        lists = (*(self.verbs or ()), *(self.short_names or ()), *(self.categories or ()))
        texts = (self.singular_name, self.group, self.version, self.kind, *lists)
        return all(_NAME.fullmatch(each) for each in texts)


class _List(msgspec.Struct):
    resources: tuple[_Resource, ...] | None = None


class _Url(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL", default="")


class _Paths(msgspec.Struct):
    paths: dict[str, _Url] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_paths = msgspec.json.Decoder(_Paths).decode
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of documents that are not what they should be."""


def resources_of(document: bytes, group: str, version: str) -> bytes:
    """Return the resources of an APIResourceList, as JSON in the form of aggregated discovery documents.

    Args:
        document: The APIResourceList.
        group: The group that it is about.
        version: The version that it is about.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: The document is no APIResourceList.
    """
    entries: dict[str, dict[str, Any]] = {}
    for each in (_decode_list(document).resources or ())[:MOST_RESOURCES]:
        name, slash, subresource = each.name.partition("/")
        if not each.is_clean() or not _RESOURCE.fullmatch(name):
            continue
        kind = {"group": each.group or group, "version": each.version or version, "kind": each.kind}
        verbs = list(each.verbs or ())
        if not slash:
            entry = entries.setdefault(name, {"resource": name})
            entry |= {
                "responseKind": kind,
                "scope": "Namespaced" if each.namespaced else "Cluster",
                "singularResource": each.singular_name,
                "verbs": verbs,
                **({"shortNames": each.short_names} if each.short_names else {}),
                **({"categories": each.categories} if each.categories else {}),
            }
        elif _SUBRESOURCE.fullmatch(subresource):
            # Metrics APIs have subresources without a resource.
            parent = entries.setdefault(
                name,
                {
                    "resource": name,
                    "responseKind": {"group": "", "version": "", "kind": ""},
                    "scope": "Namespaced" if each.namespaced else "Cluster",
                    "singularResource": "",
                    "verbs": [],
                },
            )
            found = {"subresource": subresource, "responseKind": kind, "verbs": verbs}
            parent.setdefault("subresources", []).append(found)
    return msgspec.json.encode(list(entries.values()))


def openapi_query(document: bytes, path: str) -> str | None:
    """Return the query of the URL of an OpenAPI document, or None if the index does not list it.

    Args:
        document: Answer of the server to `/openapi/v3`.
        path: Path of the document, such as `apis/metrics.k8s.io/v1beta1`.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: The answer is no index of documents.
    """
    found = (_decode_paths(document).paths or {}).get(path)
    if found is None:
        return None
    try:
        parts = urlsplit(found.url)
    except ValueError:
        return None
    is_own = not parts.scheme and not parts.netloc and parts.path == f"/openapi/v3/{path}"
    return parts.query if is_own and _QUERY.fullmatch(parts.query) else None
