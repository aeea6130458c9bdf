"""Archives that are whole are read; those that are cut, changed, too large or of another kind are refused."""

import gzip
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vcsync.archive import files
from vcsync.archive.files import BadArchive, Header, Writer, check, objects

HEADER = Header(version=1, tenant="acme", created="2026-11-25T00:00:00Z")


def config(name: str = "a", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", **metadata},
    }


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "acme.tenant"
    with Writer(path, HEADER) as writer:
        for name in ("a", "b", "c"):
            writer.add(config(name))
    return path


def rewritten(path: Path, *lines: Any) -> Path:
    """Replace the lines of an archive."""
    path.write_bytes(
        gzip.compress(
            b"".join(each if isinstance(each, bytes) else msgspec.json.encode(each) + b"\n" for each in lines)
        )
    )
    return path


def test_an_archive_is_read_as_it_was_written_and_private(archive: Path) -> None:
    assert check(archive) == (HEADER, 3)
    assert [(number, found["metadata"]["name"]) for number, found in objects(archive)] == [
        (2, "a"),
        (3, "b"),
        (4, "c"),
    ]
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


def test_an_export_that_fails_leaves_the_earlier_archive(archive: Path) -> None:
    before = archive.read_bytes()
    with pytest.raises(TypeError), Writer(archive, HEADER) as writer:
        writer.add({"unencodable": object()})
    assert archive.read_bytes() == before
    assert [each.name for each in archive.parent.iterdir()] == [archive.name]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_an_archive_that_is_cut_anywhere_is_refused(archive: Path, length: int) -> None:
    whole = archive.read_bytes()
    cut = archive.with_name("cut")
    cut.write_bytes(whole[: length % len(whole)])
    with pytest.raises(BadArchive):
        check(cut)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_an_archive_with_another_byte_is_refused(archive: Path, place: int, change: int) -> None:
    plain = bytearray(gzip.decompress(archive.read_bytes()))
    plain[place % len(plain)] ^= change
    archive.with_name("other").write_bytes(gzip.compress(bytes(plain)))
    with pytest.raises(BadArchive):
        check(archive.with_name("other"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "empty"),
        ([b"hello\n"], "cannot be read"),
        ([{"format": "tar", "version": 1}], "no archive of a tenant"),
        ([{"format": "vcsync-tenant", "version": 2}], "has version 2; this program reads version 1"),
        ([HEADER, b'{"apiVersion": ' + b"[" * 100_000 + b"\n"], "cannot be read"),
        ([HEADER, [1]], "cannot be read"),
        ([HEADER, {"apiVersion": "v1"}], "no metadata"),
        ([HEADER, {**config(), "apiVersion": "v1/../../x"}], "apiVersion is invalid"),
        ([HEADER, {**config(), "kind": "config/map"}], "kind is invalid"),
        ([HEADER, config("..")], "metadata.name is invalid"),
        ([HEADER, config("a/b")], "metadata.name is invalid"),
        ([HEADER, config("a\u0000")], "metadata.name is invalid"),
        ([HEADER, config("a" * 254)], "metadata.name is invalid"),
        ([HEADER, config(namespace="../kube-system")], "metadata.namespace is invalid"),
        ([HEADER, config(namespace=7)], "metadata.namespace is invalid"),
        ([HEADER, config(uid=["x"])], "metadata.uid is invalid"),
        ([HEADER, config(ownerReferences=[{"name": "x"}])], "ownerReferences are invalid"),
        ([HEADER, config(labels=["x"])], "metadata.labels are invalid"),
        ([HEADER, {**config(), "kind": "Pod", "spec": [1]}], "spec is invalid"),
        ([HEADER, {"end": {"objects": 0, "sha256": ""}}], "checksum"),
        ([HEADER, {"end": {"objects": 0}}], "the end cannot be read"),
        ([HEADER, config()], "the file is cut"),
    ],
)
def test_a_file_that_is_no_archive_is_refused_with_the_reason(
    tmp_path: Path, lines: list[Any], said: str
) -> None:
    with pytest.raises(BadArchive, match=said.replace(".", r"\.")):
        check(rewritten(tmp_path / "file", *lines))


def test_there_is_nothing_after_the_end(archive: Path) -> None:
    lines = gzip.decompress(archive.read_bytes()).splitlines(keepends=True)
    with pytest.raises(BadArchive, match="more after the end"):
        check(rewritten(archive, *lines, config("d")))


def test_a_line_is_never_read_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    with pytest.raises(BadArchive, match="longer than 1000 bytes"):
        check(rewritten(tmp_path / "file", HEADER, b" " * 10_000_000))


def test_there_may_be_only_so_many_objects(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_OBJECTS", 2)
    with pytest.raises(BadArchive, match="more than 2 objects"):
        check(archive)
