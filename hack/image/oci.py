"""OCI images: layers, configuration and layout, whose bytes follow from their input."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONTAINERD_NAME = "io.containerd.image.name"
"""Annotation with the full name, by which containerd imports an image."""
REFERENCE_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Owner:
    """Owner and mode of a folder that is not root's."""

    uid: int
    mode: int


def layer(root: Path, epoch: int, owners: Mapping[str, Owner] | None = None) -> bytes:
    """Return the files below a folder as an uncompressed layer.

    Compressed layers would depend on the version of zlib. Registries' clients compress them on their way.

    Args:
        root: folder whose content becomes the layer.
        epoch: time of all files, in seconds since 1970.
        owners: path in the image -> its owner; all others are root's.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            entry = tarfile.TarInfo(name)
            entry.mtime = epoch
            owner = (owners or {}).get(name)
            entry.mode = owner.mode if owner else _mode(path)
            entry.uid = entry.gid = owner.uid if owner else 0
            if path.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(entry)
            elif path.is_dir():
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                content = path.read_bytes()
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _mode(path: Path) -> int:
    if path.is_symlink():
        return 0o777
    return 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644


def blobs(
    layers: Sequence[bytes], config: Mapping[str, Any], name: str, epoch: str, architecture: str
) -> tuple[dict[str, bytes], bytes, str]:
    """Return the blobs of an image by their digests, its index, and the digest of its manifest.

    Args:
        layers: uncompressed, the lowest first.
        config: how containers start: `config` of the OCI image configuration.
        name: full name with tag.
        epoch: time of its creation, RFC 3339.
        architecture: as Go names it.
    """
    found = {_digest(each): each for each in layers}
    configuration = _json(
        {
            "created": epoch,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [_digest(each) for each in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIGURATION, configuration),
            "layers": [_descriptor(LAYER, each) for each in layers],
        }
    )
    found |= {_digest(each): each for each in (configuration, manifest)}
    annotations = {CONTAINERD_NAME: name, REFERENCE_NAME: name.rpartition(":")[2]}
    platform = {"architecture": architecture, "os": "linux"}
    entry = {**_descriptor(MANIFEST, manifest), "annotations": annotations, "platform": platform}
    index = _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})
    return found, index, _digest(manifest)


def write_layout(folder: Path, contents: Mapping[str, bytes], index: bytes) -> None:
    """Write an image layout (OCI image specification, image-layout.md) into a folder."""
    for name, content in _files(contents, index):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_archive(path: Path, contents: Mapping[str, bytes], index: bytes) -> None:
    """Write the layout as a tar file, which `ctr images import` and `skopeo copy oci-archive:` take."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in _files(contents, index):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))


def _files(contents: Mapping[str, bytes], index: bytes) -> Iterable[tuple[str, bytes]]:
    yield "oci-layout", _json({"imageLayoutVersion": "1.0.0"})
    yield "index.json", index
    for digest, content in sorted(contents.items()):
        yield f"blobs/{digest.replace(':', '/')}", content


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
