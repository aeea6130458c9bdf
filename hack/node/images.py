"""Images of containers, made from programs of this machine: tar files in the form of `docker save`."""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSE = "registry.k8s.io/pause:3.10"
PAUSES = (PAUSE, "registry.k8s.io/pause:3.9")
OFFICIAL = "registry.k8s.io/e2e-test-images"
"""Repository of the images of Kubernetes' own tests. `test/utils/image/manifest.go` has their names and tags."""
BUSYBOX = (
    *(f"docker.io/library/busybox:{tag}" for tag in ("1.35", "1.29", "latest")),
    f"{OFFICIAL}/busybox:1.37.0-1",
)
"""Names of one image, which has this machine's version of busybox."""
AGNHOST = (f"{OFFICIAL}/agnhost:2.63.0",)
SHEBANG = "#!/bin/sh\n"
SCRIPTS = {"bin/printenv": f"""{SHEBANG}env | sed -n "s/^$1=//p"\n"""}
"""Commands that Kubernetes' tests call in agnhost and that Debian's busybox lacks: path in the image -> text."""
WAIT_FOR_SIGNAL = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"
"""The `pause` of Kubernetes as a script: it waits for a signal and collects ended processes."""
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}


@dataclass(frozen=True)
class Image:
    """An image with one layer."""

    names: tuple[str, ...]
    """Full names with tags."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    programs: Mapping[str, Path] = field(default_factory=dict)
    """Path in the image -> program of this machine, which must be linked statically."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Path in the image -> text of a file, which everybody may read and run."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Path in the image -> target of a symbolic link."""


def all_images(busybox: Path, agnhost: Path, texts: Mapping[str, str]) -> tuple[Image, ...]:
    """Return the images of a node: pause, busybox and agnhost, which Kubernetes' own tests use.

    Args:
        busybox: statically linked program.
        agnhost: program.
        texts: further files of agnhost: path in the image -> text.
    """
    shell = {"bin/busybox": busybox}
    links = {f"bin/{name}": "busybox" for name in applets(busybox)}
    return (
        Image(PAUSES, ("/bin/sh", "-c", WAIT_FOR_SIGNAL), (), shell, links=links),
        Image(BUSYBOX, (), ("sh",), shell, links=links),
        Image(
            AGNHOST,
            ("/agnhost",),
            ("pause",),
            {**shell, "agnhost": agnhost},
            {path: text for path, text in {**SCRIPTS, **texts}.items() if path not in links},
            links,
        ),
    )


def applets(busybox: Path) -> list[str]:
    """Return the names of the commands of a busybox."""
    run = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True, timeout=30)
    return [name for name in run.stdout.split() if name != "busybox"]


def write_archive(images: Sequence[Image], target: Path, architecture: str = "amd64") -> None:
    """Write images to one tar file: a layer and a configuration for each, and a manifest.

    Args:
        images: to write.
        target: the tar file.
        architecture: of the programs, as Go names it.
    """
    manifest = []
    with tarfile.open(target, "w") as archive:
        for image in images:
            layer = layer_of(image)
            digest = hashlib.sha256(layer).hexdigest()
            config = configuration(image, digest, architecture)
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, name, config)
            _add(archive, f"{digest}/layer.tar", layer)
            manifest.append(
                {"Config": name, "RepoTags": list(image.names), "Layers": [f"{digest}/layer.tar"]}
            )
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def layer_of(image: Image) -> bytes:
    """Return the layer of an image as a tar file, which is the same whenever it is made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        paths = (*image.programs, *image.texts, *image.links, *ACCOUNTS)
        for folder in sorted({str(parent) for path in paths for parent in Path(path).parents} - {"."}):
            _add_folder(layer, folder, 0o755)
        for folder in ("root", "tmp"):
            _add_folder(layer, folder, 0o1777)
        for path, content in ACCOUNTS.items():
            _add(layer, path, content)
        for path, program in image.programs.items():
            _add(layer, path, program.read_bytes(), 0o755)
        for path, text in image.texts.items():
            _add(layer, path, text.encode(), 0o755)
        for path, aim in image.links.items():
            link = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.SYMTYPE, aim
            layer.addfile(link)
    return buffer.getvalue()


def configuration(image: Image, layer_digest: str, architecture: str) -> bytes:
    """Return the configuration of an image (OCI image specification, config.md)."""
    content = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [PATH], "Entrypoint": list(image.entrypoint), "Cmd": list(image.command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }
    return json.dumps(content).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)
