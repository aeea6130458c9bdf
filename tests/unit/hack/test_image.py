"""The image: its bytes follow from its input, its packages are those of Debian and of the lock, its bill names them."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.bill_of_materials import of_lock
from hack.generate import CONFIG, ROOT
from hack.image import build, debian, oci, rootfs
from vcsync import __version__

OWNERS = {"data": oci.Owner(7, 0o700)}


def tree(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "data").mkdir()
    (folder / "link").symlink_to("a/b")
    (folder / "a/b").chmod(0o700)
    return folder


def entries(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {each.name: each for each in archive}


def test_a_layer_is_the_same_whenever_and_wherever_it_is_made(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", ["a/b", "c"])
    other = tree(tmp_path / "other", ["c", "a/b"])
    assert oci.layer(one, 5, OWNERS) == oci.layer(other, 5, OWNERS)
    assert oci.layer(one, 6, OWNERS) != oci.layer(one, 5, OWNERS)


def test_files_of_a_layer_belong_to_root_and_have_two_modes(tmp_path: Path) -> None:
    found = entries(oci.layer(tree(tmp_path / "one", ["a/b", "c"]), 5, OWNERS))
    assert {name: (each.uid, oct(each.mode)) for name, each in found.items()} == {
        "a": (0, "0o755"),
        "a/b": (0, "0o755"),
        "c": (0, "0o644"),
        "data": (7, "0o700"),
        "link": (0, "0o777"),
    }
    assert {each.mtime for each in found.values()} == {5}
    assert found["link"].linkname == "a/b"


def test_the_archive_is_a_layout_in_which_every_digest_is_right(tmp_path: Path) -> None:
    layers = [b"one", b"two"]
    contents, index, digest = oci.blobs(
        layers, {"User": "1:1"}, "example.com/a:1", "2026-01-01T00:00:00Z", "amd64"
    )
    oci.write_archive(tmp_path / "image.tar", contents, index)
    oci.write_layout(tmp_path / "layout", contents, index)
    with tarfile.open(tmp_path / "image.tar") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    written = {
        path.relative_to(tmp_path / "unpacked").as_posix(): path.read_bytes()
        for path in (tmp_path / "unpacked").rglob("*")
        if path.is_file()
    }
    assert all((tmp_path / "layout" / name).read_bytes() == text for name, text in written.items())
    assert json.loads(written["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    blobs = {name: text for name, text in written.items() if name.startswith("blobs/")}
    assert all(name == f"blobs/sha256/{hashlib.sha256(text).hexdigest()}" for name, text in blobs.items())
    [entry] = json.loads(written["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"][oci.CONTAINERD_NAME] == "example.com/a:1"

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(content) == descriptor["size"]
        return content

    manifest = json.loads(blob(entry))
    assert [blob(each) for each in manifest["layers"]] == layers
    config = json.loads(blob(manifest["config"]))
    assert config["rootfs"]["diff_ids"] == [each["digest"] for each in manifest["layers"]]
    assert config["config"]["User"] == "1:1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lib/x/libc.so", "usr/lib/x/libc.so"),
        ("bin", "usr/bin"),
        ("etc/passwd", "etc/passwd"),
        ("library", "library"),
    ],
)
def test_merged_folders_are_below_usr(name: str, expected: str) -> None:
    assert debian.merged(name) == expected


def test_documents_and_translations_are_left_out_but_not_copyrights() -> None:
    kept = [
        name
        for name in (
            "usr/share/doc",
            "usr/share/doc/tzdata",
            "usr/share/doc/tzdata/copyright",
            "usr/share/doc/tzdata/changelog.gz",
            "usr/share/man/man1/x.gz",
            "usr/lib/x86_64-linux-gnu/gconv/UTF-16.so",
            "usr/lib/x86_64-linux-gnu/libc.so.6",
        )
        if debian.is_kept(name)
    ]
    assert kept == [
        "usr/share/doc",
        "usr/share/doc/tzdata",
        "usr/share/doc/tzdata/copyright",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
    ]


def test_the_image_has_no_shell_and_the_python_of_its_packages() -> None:
    assert f"python{debian.PYTHON}-minimal" in debian.PACKAGES
    assert not {"bash", "dash", "busybox", "coreutils"} & set(debian.PACKAGES)
    assert list(debian.PACKAGES) == sorted(debian.PACKAGES)


def test_containers_start_as_the_user_of_the_deployments() -> None:
    assert build.CONFIG["User"] == "65532:65532"
    for path in (CONFIG / "deploy").glob("*-*.yaml"):
        pod = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == rootfs.USER


def test_containers_start_as_those_of_the_containerfile() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    said = dict(line.split(maxsplit=1) for line in lines if line[:1].isupper())
    assert build.CONFIG["Entrypoint"] == yaml.safe_load(said["ENTRYPOINT"])
    assert build.CONFIG["Cmd"] == yaml.safe_load(said["CMD"])
    assert build.CONFIG["User"] == said["USER"]
    assert build.CONFIG["WorkingDir"] == said["WORKDIR"]
    assert build.CONFIG["ExposedPorts"] == {f"{each}/tcp": {} for each in said["EXPOSE"].split()}
    assert f"python:{debian.PYTHON}-slim" in said["FROM"]


def test_the_bill_of_materials_names_every_locked_package_and_is_the_same_each_time() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    found = json.loads(of_lock(lock))
    assert len(found["components"]) == sum("==" in line for line in lock.splitlines() if line[:1].isalnum())
    assert "pkg:pypi/kubernetes-asyncio" in {each["purl"].partition("@")[0] for each in found["components"]}
    assert found["metadata"]["component"]["version"] == __version__
    assert of_lock(lock) == of_lock(lock)
    assert of_lock(lock) != of_lock(lock + "other==1 ")


def test_a_package_of_debian_is_named_with_its_checksum(tmp_path: Path) -> None:
    package = debian.Package("zlib1g", "1:1.3+x", "amd64", "ab" * 32, tmp_path, "")
    found = debian.component(package)
    assert found["purl"] == f"pkg:deb/debian/zlib1g@1%3A1.3%2Bx?arch=amd64&distro={debian.SUITE}"
    assert found["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]


RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
DEB822 = "Types: deb\nURIs: http://archive.example/debian\nSuites: bookworm bookworm-updates\nSigned-By: /keys.gpg\n"


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        (DEB822, RELEASE, DEB822.replace("bookworm", debian.SUITE)),
        (
            "deb http://archive.example/debian bookworm-security main\n",
            RELEASE,
            f"deb http://archive.example/debian {debian.SUITE}-security main\n",
        ),
        ("deb http://tools.example/apt stable main\n", RELEASE, ""),
        ("deb http://archive.example noble main\n", "ID=ubuntu\nVERSION_CODENAME=noble\n", ""),
    ],
    ids=["deb822", "one line", "not Debian's", "not Debian"],
)
def test_packages_come_from_the_archives_of_the_machine(text: str, release: str, expected: str) -> None:
    assert debian.of_suite(text, release) == expected
