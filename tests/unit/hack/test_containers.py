"""The Containerfile and the compose files: every command and path is valid, and nothing runs as root."""

import fnmatch
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hack.generate import CONFIG, ROOT
from vcsync.api import names
from vcsync.cli.command import config
from vcsync.cli.command.main import vcsync

COMPOSE = CONFIG / "compose"
SETTINGS, DATA = "/etc/vcsync/vcsync.yaml", "/var/lib/vcsync"
BASE: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
ETCD: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.etcd.yaml").read_text())
SERVICES = {
    f"{file}:{name}": service
    for file, document in (("compose", BASE), ("compose.etcd", ETCD))
    for name, service in document["services"].items()
}
OURS = [name for name, service in SERVICES.items() if not service.get("image", "").startswith("quay.io/")]


def instructions() -> list[tuple[str, str]]:
    """Return the Containerfile's instructions and their arguments, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def context_of(arguments: list[str]) -> click.Context:
    """Parse arguments of the command line, without running the command."""
    context = click.Context(vcsync)
    command: click.Command = vcsync
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    return command.make_context(command.name, arguments)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A volume with the files of `vcsync setup` that commands read."""
    (tmp_path / "vcsync.yaml").write_text(here((COMPOSE / "vcsync.yaml").read_text(), tmp_path))
    members = config.read(COMPOSE / "vcsync.yaml").sections["up"]
    (tmp_path / "roles").mkdir()
    for name in (*members["hollow"].split(","), *(f"roles/{role}" for role in names.META_ROLES)):
        (tmp_path / f"{name}.kubeconfig").touch()
    return tmp_path


def here(text: str, folder: Path) -> str:
    return text.replace(SETTINGS, str(folder / "vcsync.yaml")).replace(DATA, str(folder))


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_accepted_with_the_mounted_settings(name: str, data: Path) -> None:
    arguments = [here(each, data) for each in SERVICES[name]["command"]]
    context = context_of(arguments)
    for parameter in ("meta", "kubeconfig"):
        if path := context.params.get(parameter):
            assert Path(path).is_file()
    assert context.params.get("data", data) == data


@pytest.mark.parametrize("name", OURS)
def test_containers_have_the_settings_a_volume_and_no_capabilities(name: str) -> None:
    service = {**BASE["x-role"], **SERVICES[name]}
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    volumes = [each.split(":")[:2] for each in service["volumes"]]
    assert [target for _, target in volumes] == [DATA, SETTINGS]
    assert volumes[0][0] in {**BASE["volumes"], **ETCD["volumes"]}
    assert (COMPOSE / volumes[1][0]).is_file()
    needed = service.get("depends_on", {})
    assert set(needed) <= {each.partition(":")[2] for each in SERVICES}


def test_every_super_cluster_has_its_nodes_and_its_syncer() -> None:
    hollow = set(config.read(COMPOSE / "vcsync.yaml").sections["up"]["hollow"].split(","))
    for prefix in ("syncer-", "hollow-"):
        assert {name.removeprefix(prefix) for name in BASE["services"] if name.startswith(prefix)} == hollow
    for name in hollow:
        assert name in BASE["services"][f"syncer-{name}"]["command"]
        assert f"{DATA}/{name}.kubeconfig" in BASE["services"][f"hollow-{name}"]["command"]


def test_roles_use_the_control_planes_service_name() -> None:
    said = config.read(COMPOSE / "vcsync.yaml").sections["controlplane"]
    host, _, port = said["advertise"].partition(":")
    assert host in BASE["services"]
    assert said["listen"] == f"0.0.0.0:{port}"
    assert BASE["services"][host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert ETCD["services"]["controlplane-2"]["networks"]["default"]["aliases"] == [host]


def test_the_image_is_built_from_pinned_inputs() -> None:
    bases = {argument.split()[0] for instruction, argument in instructions() if instruction == "FROM"}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", bases.pop())
    installs = [argument for _, argument in instructions() if " install " in argument and "pip" in argument]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert "-r /build/requirements.lock" in installs[0]
    assert BASE["services"]["controlplane"]["build"] == {"context": "../..", "dockerfile": "Containerfile"}


def test_files_copied_into_the_image_exist_and_are_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    copied = [argument.split() for instruction, argument in instructions() if instruction == "COPY"]
    for source, *_ in [each for each in copied if not each[0].startswith("--from")]:
        assert (ROOT / source).exists(), source
        matching = [rule for rule in rules if fnmatch.fnmatch(source, rule.removeprefix("!"))]
        assert matching, source
        assert matching[-1] == f"!{source}"
    python = next(base for instruction, base in instructions() if instruction == "FROM")
    version = re.search(r"python:(3\.\d+)-", python)
    assert version is not None
    assert any(f"/opt/vcsync/lib/python{version[1]}/site-packages/vcsync" in each for each in copied)


def test_the_image_runs_as_an_unprivileged_user(tmp_path: Path) -> None:
    by_name = dict(instructions())
    assert by_name["USER"] == "65532:65532"
    assert yaml.safe_load(by_name["ENTRYPOINT"]) == ["vcsync"]
    context = context_of([here(each, tmp_path) for each in yaml.safe_load(by_name["CMD"])])
    assert context.params["listen"].rpartition(":")[2] in by_name["EXPOSE"].split()
    assert context.params["status"].rpartition(":")[2] in by_name["EXPOSE"].split()
    assert by_name["VOLUME"] == f'["{DATA}"]'
    users = {
        d["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
        for d in map(yaml.safe_load, (path.read_text() for path in (CONFIG / "deploy").glob("*-*.yaml")))
    }
    assert users == {65532}
