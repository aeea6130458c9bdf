"""The sources of binaries, and the conditions under which they are built."""

import os
from pathlib import Path

import pytest

from hack.testbed import binaries
from hack.testbed.binaries import FAMILIES, BuildError, Family


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VCSYNC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache" / "vcsync" / "testbed"


def program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"VCSYNC_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c/vcsync/testbed"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/vcsync/testbed"),
        ({}, f"{Path.home()}/.cache/vcsync/testbed"),
    ],
)
def test_the_user_chooses_the_cache_folder(environ: dict[str, str], root: str) -> None:
    assert str(binaries.cache_root(environ)) == root


def test_compiled_assets_have_precedence_over_the_cache(tmp_path: Path) -> None:
    ready = program(tmp_path / "assets" / "etcd")
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "VCSYNC_CACHE": str(tmp_path / "cache")}
    assert binaries.locate("etcd", environ) == ready
    assert tmp_path / "cache" in binaries.locate("kwok", environ).parents


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BuildError, match=r"'kubeadm'.*kube-apiserver.*e2e\.test"):
        binaries.locate("kubeadm")


def test_the_cache_folder_changes_with_modules_and_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "MODULES", tmp_path)
    (tmp_path / "f").mkdir()

    def digest(mod: str = "module m", total: str = "", flags: str = "-s") -> str:
        (tmp_path / "f" / "go.mod").write_text(mod)
        (tmp_path / "f" / "go.sum").write_text(total)
        return Family("f", flags, {"p": "example.org/p"}, {}).digest()

    digests = {digest(), digest(mod="module n"), digest(total="h1:x"), digest(flags="-w")}
    assert len(digests) == 4
    assert digest() in digests


def test_every_family_has_its_module_and_pins_the_versions_it_stamps() -> None:
    for family in FAMILIES:
        assert (family.folder / "go.sum").exists()
        assert binaries.required_go((family.folder / "go.mod").read_text()) >= (1, 24)
    modules = {family.name: (family.folder / "go.mod").read_text() for family in FAMILIES}
    assert f"k8s.io/kubernetes {binaries.KUBERNETES_VERSION}" in modules["kubernetes"]
    assert f"sigs.k8s.io/kwok {binaries.KWOK_VERSION}" in modules["kwok"]
    assert f"helm.sh/helm/v4 {binaries.HELM_VERSION}" in modules["helm"]
    assert f"k8s.io/kubernetes {binaries.KUBERNETES_VERSION}" in modules["kubelet"]
    assert f"containerd/v2 {binaries.CONTAINERD_VERSION}" in modules["containerd"]


def test_programs_other_than_servers_are_built_only_on_request() -> None:
    others = {"coredns", "helm", "jobset", "e2e.test", "kubectl-spdy", "metrics-server"}
    assert {*others, *binaries.NODE} == set(binaries.ON_DEMAND)
    assert {"kubelet", "containerd", "runc", "bridge"} < set(binaries.NODE)
    assert not set(binaries.ON_DEMAND) & set(binaries.SERVERS)


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8", (1, 26, 8)), ("go1.27", (1, 27)), ("", ()), ("devel", ()), ("1.26.0", (1, 26, 0))],
)
def test_versions_compare_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert binaries.parse_version(text) == version


@pytest.mark.parametrize(
    ("cpus", "gib", "parallel"), [(2, 24, 2), (16, 8, 4), (8, 1, 1), (1, 64, 1), (64, 64, 32)]
)
def test_compilers_fit_in_memory(cpus: int, gib: int, parallel: int) -> None:
    assert binaries.compilers(cpus, gib << 30) == parallel


def test_available_memory_is_read_from_meminfo() -> None:
    assert binaries.available_memory("MemTotal: 8 kB\nMemAvailable:   1024 kB\n") == 1 << 20
    assert binaries.available_memory("") == 0


def test_existing_programs_are_not_built_again(cache: Path) -> None:
    path = program(binaries.locate("etcd"))
    assert binaries.ensure(["etcd"]) == {"etcd": path}
    assert not (cache / "lock").exists()


def test_missing_programs_are_built_once_with_the_pinned_flags(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    script = f"""
        if [ "$1" = env ]; then echo go1.99; exit; fi
        echo "$PWD $CGO_ENABLED $GOTOOLCHAIN $*" >> {calls}
        while [ "$1" != -o ]; do shift; done
        echo built > "$2"
    """
    program(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    lines: list[str] = []
    for _ in range(2):
        found = binaries.ensure(["kwok"], lines.append)
    assert found["kwok"].read_text() == "built\n"
    (call,) = calls.read_text().splitlines()
    family = next(family for family in FAMILIES if family.name == "kwok")
    assert call.startswith(f"{family.folder} 0 local build -v -p ")
    assert call.endswith("sigs.k8s.io/kwok/cmd/kwok")
    assert [line.split()[:2] for line in lines] == [["building", "kwok"], ["built", "kwok"]]


def test_programs_of_one_module_are_built_by_one_call(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    script = f"""
        if [ "$1" = env ]; then echo go1.99; exit; fi
        echo "$*" >> {calls}
        while [ "$1" != -o ]; do shift; done
        if [ -d "$2" ]; then
            for package in "$@"; do case $package in k8s.io/*) echo $package > "$2/${{package##*/}}";; esac; done
        else
            echo alone > "$2"
        fi
    """
    program(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    found = binaries.ensure(["etcd", "kube-apiserver", "kube-scheduler", "e2e.test"])

    assert {name: path.read_text().strip() for name, path in found.items()} == {
        "etcd": "alone",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "e2e.test": "alone",
    }
    assert len(calls.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("minor", "served"), [(34, False), (35, True), (36, True), (37, True), (38, False), (None, False)]
)
def test_a_kubectl_on_path_serves_if_its_minor_version_is_supported(
    cache: Path, tmp_path: Path, minor: int | None, served: bool
) -> None:
    says = f"echo Client Version: v1.{minor}.2" if minor else "exit 1"
    found = program(tmp_path / "bin" / "kubectl", says)
    environ = {"PATH": str(tmp_path / "bin"), "VCSYNC_CACHE": str(tmp_path / "cache")}
    assert (binaries.locate("kubectl", environ) == found) == served


def test_a_built_kubectl_has_precedence_over_the_one_on_path(cache: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "kubectl", "echo Client Version: v1.36.0")
    environ = {"PATH": str(tmp_path / "bin"), "VCSYNC_CACHE": str(tmp_path / "cache")}
    built = program(binaries.locate("kubectl", {**environ, "PATH": ""}))
    assert binaries.locate("kubectl", environ) == built


def test_a_failed_build_is_one_line_that_names_the_log(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'if [ "$1" = env ]; then echo go1.99; exit; fi; echo noise; echo no such module; exit 1'
    program(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with pytest.raises(BuildError) as error:
        binaries.ensure(["etcd"])
    message = str(error.value)
    log = Path(message.rpartition("log: ")[2])
    assert message.startswith("building etcd failed: no such module; log: ")
    assert "\n" not in message
    assert log.read_text() == "noise\nno such module\n"
    assert not binaries.locate("etcd").exists()


def test_a_go_that_is_too_old_is_not_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "go", "echo go1.19")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    installed = program(cache / "go" / "go" / "bin" / "go", "echo go1.99")
    assert binaries.find_go() == installed


def test_without_go_the_error_names_the_remedy(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "go", "echo go1.19")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(binaries.sys, "executable", str(program(tmp_path / "python", "exit 1")))
    with pytest.raises(BuildError, match=r"put go on PATH; log: .*go\.log"):
        binaries.ensure(["etcd"])


def test_the_source_of_a_program_is_the_folder_of_its_package(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
        if [ "$1" = env ]; then echo go1.99; exit; fi
        case "$*" in *sigs.k8s.io/jobset) echo "$PWD/found";; *) echo no such package >&2; exit 1;; esac
    """
    program(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)

    assert binaries.source_of("jobset") == binaries.MODULES / "jobset" / "found"
    with pytest.raises(BuildError, match="the source of etcd is not available: no such package"):
        binaries.source_of("etcd")


def test_tail_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(map(str, range(100))))
    assert binaries.tail(tmp_path / "log", 2) == "98\n99"
    assert binaries.tail(tmp_path / "missing") == ""


def test_a_family_with_c_and_tags_is_built_with_them(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    containerd, runc = (next(f for f in FAMILIES if f.name == name) for name in ("containerd", "runc"))
    assert containerd.command("ctr")[-3:-1] == ["-tags", "no_btrfs,no_devmapper,no_zfs"]
    assert "-tags" not in runc.command("runc")
    monkeypatch.setattr(binaries, "find_go", lambda _: program(tmp_path / "bin" / "go"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="building runc needs gcc: install it"):
        binaries.ensure(["runc"])
