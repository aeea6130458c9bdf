"""Image references: the repository that an image comes from, and whether a registry is allowed. Pure.

Source of the grammar and of the defaults: `github.com/distribution/reference`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vcsync.patterns.linear import linear

Spec = Mapping[str, Any]

DEFAULT_HOST, OFFICIAL = "docker.io", "library"
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = linear(
    rf"(?P<repository>(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)


def repository_of(image: str) -> str:
    """Return the repository of an image with its registry: `docker.io/library/nginx` for `nginx`.

    A text that is not a reference of an image has no repository. The result is empty then.
    """
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return ""
    host, slash, path = found["repository"].partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, path = DEFAULT_HOST, found["repository"]
    host = host.lower()
    if host == "index.docker.io":
        host = DEFAULT_HOST
    if host == DEFAULT_HOST and "/" not in path:
        path = f"{OFFICIAL}/{path}"
    return f"{host}/{path}"


def is_allowed(image: str, registries: Sequence[str]) -> bool:
    """Return whether an image comes from one of the registries, each with or without the beginning of a path."""
    repository = repository_of(image)
    return any(repository == each or repository.startswith(f"{each}/") for each in registries)


def images_of(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield what uses an image and the image, for the containers and volumes in the spec of a Pod."""
    for kind in CONTAINERS:
        for each in spec.get(kind) or ():
            yield f'container "{each.get("name") or ""}"', each.get("image") or ""
    for each in spec.get("volumes") or ():
        if each.get("image") is not None:
            yield f'volume "{each.get("name") or ""}"', each["image"].get("reference") or ""


def outside(spec: Spec, old: Spec, registries: Sequence[str]) -> list[str]:
    """Return which images of a Pod come from other registries. Images that the Pod had before are not checked again.

    Args:
        spec: Spec of the Pod.
        old: Spec of the stored Pod, empty if it is created.
        registries: The allowed registries. Empty: all are allowed.
    """
    if not registries:
        return []
    before = {image for _, image in images_of(old)}
    return [
        f"{user} uses image {image!r}"
        for user, image in images_of(spec)
        if image not in before and not is_allowed(image, registries)
    ]
