"""Warnings about paths of one volume that overlap. Pure.

Source: `warningsForOverlappingVirtualPaths` in Kubernetes' `pkg/api/pod/warnings.go`.
"""

from collections.abc import Iterator

from vcsync.apimachinery.validation.fields import Object, items, part, text

_MOST_PATHS = 500
"""Largest number of paths of one volume that are compared. Volumes with more paths are skipped."""
_Path = tuple[str, str]


def overlapping_paths(spec: Object) -> Iterator[str]:
    """Yield a warning for every pair of paths that are equal or of which one contains the other."""
    for volume in items(spec, "volumes"):
        name = text(volume, "name")
        for key, shown in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
            source = volume.get(key)
            if isinstance(source, dict):
                yield from _pairs(name, _described(shown, source, "secretName"), _paths(source, ""))
        if isinstance(volume.get("projected"), dict):
            for source in items(volume["projected"], "sources"):
                if not any(source.get(key) is not None for key in source):
                    yield f'volume "{name}" (Projected) has no sources provided'
            paths = [each for source in items(volume["projected"], "sources") for each in _projected(source)]
            yield from _pairs(name, "Projected", paths)


def _described(shown: str, source: Object, name_key: str) -> str:
    if shown == "DownwardAPI":
        return shown
    name = text(source, name_key if shown == "Secret" else "name")
    return f'{shown} "{name}"'


def _paths(source: Object, described: str) -> list[_Path]:
    return [(text(each, "path"), described) for each in items(source, "items")]


def _projected(source: Object) -> list[_Path]:
    for key, shown in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        if items(part(source, key), "items"):
            return _paths(source[key], _described(shown, source[key], "name"))
    if "serviceAccountToken" in source:
        return [(text(source["serviceAccountToken"], "path"), "ServiceAccountToken")]
    bundle = part(source, "clusterTrustBundle")
    if bundle:
        name = text(bundle, "name") or text(bundle, "signerName")
        return [(text(bundle, "path"), f'ClusterTrustBundle "{name}"')]
    return []


def _pairs(volume: str, described: str, paths: list[_Path]) -> Iterator[str]:
    seen: list[_Path] = []
    for path, source in paths[:_MOST_PATHS]:
        here = (path.rstrip("/"), source)
        for other in seen:
            if here[0] and other[0] and _overlap(here[0], other[0]):
                yield f'volume "{volume}" ({described}): overlapping paths: {_shown(here)} with {_shown(other)}'
        seen.append(here)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _shown(path: _Path) -> str:
    return f'"{path[0]}" ({path[1]})' if path[1] else f'"{path[0]}"'
