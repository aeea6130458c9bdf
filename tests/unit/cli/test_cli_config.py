"""The settings file of all roles: it is validated as a whole, each command reads its section, and flags have precedence."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from vcsync.cli.command import config
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.main import main


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        path = tmp_path / "vcsync.yaml"
        path.write_text(text)
        return path

    return write


def chosen(section: str, path: Path, *arguments: str) -> dict[str, Any]:
    """Return a command's effective values for a file and flags."""
    real = config.command_of(section)
    found: dict[str, Any] = {}
    command = click.Command(section, params=real.params, callback=lambda **given: found.update(given))
    run = CliRunner().invoke(command, ["--config", str(path), *arguments])
    assert run.exit_code == 0, run.output
    return found


def test_a_command_reads_its_section_and_the_common_one(file: Any) -> None:
    path = file("common: {log-level: debug}\nnsscheduler: {policy: pack}\npodscheduler: {lost-after: 400}\n")
    found = chosen("nsscheduler", path)
    assert (found["policy"], found["log_level"], found["lost_after"]) == ("pack", "debug", 300.0)
    assert chosen("podscheduler", path)["lost_after"] == 400.0


def test_flags_have_precedence_over_the_section_and_that_over_the_common_one(file: Any) -> None:
    path = file(
        "common: {log-level: debug, lost-after: 500}\nnsscheduler: {policy: pack, log-level: error}\n"
    )
    found = chosen("nsscheduler", path, "--policy", "cheap")
    assert (found["policy"], found["log_level"], found["lost_after"]) == ("cheap", "error", 500.0)


def test_a_process_with_several_roles_reads_their_sections(file: Any) -> None:
    path = file(
        "nsscheduler: {policy: pack, listen: '127.0.0.1:1'}\nsyncer: {brake-share: 0.5}\nhollow: {nodes: 7}\n"
    )
    found = chosen("all", path)
    assert (found["policy"], found["brake_share"], found["listen"]) == ("pack", 0.5, "127.0.0.1:10550")
    assert config.read(path).defaults("up") == {"nodes": "7"}


def test_contradicting_sections_are_refused_if_one_process_reads_both(file: Any) -> None:
    path = file("nsscheduler: {lost-after: 300}\npodscheduler: {lost-after: 400}\n")
    with pytest.raises(WrongInputError, match=r"nsscheduler.lost-after and podscheduler.lost-after differ"):
        config.read(path).defaults("all")
    path = file("all: {lost-after: 500}\nnsscheduler: {lost-after: 300}\npodscheduler: {lost-after: 400}\n")
    assert config.read(path).defaults("all") == {"lost_after": "500"}


def test_paths_are_relative_to_the_files_folder(file: Any) -> None:
    path = file(
        "common: {data: state}\nup: {super-cluster: {east: keys/east.kubeconfig}}\n"
        "controlplane: {etcd: ['http://a:2379', 'http://b:2379'], etcd-cacert: /etc/ca.crt}\n"
    )
    found = config.read(path)
    assert found.defaults("up") == {
        "data": str(path.parent / "state"),
        "real": [f"east={path.parent}/keys/east.kubeconfig"],
    }
    plane = found.defaults("controlplane")
    assert plane["etcd_cacert"] == "/etc/ca.crt"
    assert plane["etcd"] == ["http://a:2379", "http://b:2379"]


@pytest.mark.parametrize(
    ("text", "section", "values"),
    [
        ("up: {tenants: [acme, umbrella]}", "up", {"tenants": "acme,umbrella"}),
        ("up: {tenants: acme}", "up", {"tenants": "acme"}),
        ("up: {ephemeral: true}", "up", {"ephemeral": True}),
        ("nsscheduler: {default-slice: {cpu: 2, memory: 4Gi}}", "nsscheduler", {"default_slice": ["cpu=2", "memory=4Gi"]}),
        ("nsscheduler: {default-slice: 'cpu=2,memory=4Gi'}", "nsscheduler", {"default_slice": ["cpu=2,memory=4Gi"]}),
        ("hollow: {start: [0.5, 2]}", "hollow", {"start": ["0.5", "2"]}),
        ("syncer: {leader-elect: false}", "syncer", {"leader_elect": False}),
        ("controlplane: {webhook-allow-host: {a: b.example}}", "controlplane", {"webhook_allow_host": ["a=b.example"]}),
        ("common:\nup:\n", "up", {}),
        ("", "up", {}),
        ("# nothing\n", "up", {}),
    ],
)  # fmt: skip
def test_values_may_be_lists_and_mappings_of_yaml(
    file: Any, text: str, section: str, values: dict[str, Any]
) -> None:
    assert config.read(file(text)).defaults(section) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nsscheduler: {polcy: pack}", "nsscheduler has no field 'polcy'; did you mean 'policy'?"),
        ("controlplane: {maxRequestsInflight: 1}", "did you mean 'max-requests-inflight'?"),
        ("syncer: {tenants: a}", "syncer has no field 'tenants'; up has a field of that name"),
        ("foo: {}", "unknown section 'foo'; sections are common, "),
        ("schduler: {}", "unknown section 'schduler'; did you mean 'nsscheduler'?"),
        ("tenants: [acme]", "unknown section 'tenants'; up has a field of that name"),
        ("common: {policy: pack}", "common has no field 'policy'; nsscheduler and all have a field of that name"),
        ("nsscheduler: {policy: random}", "nsscheduler.policy: 'random' is not one of"),
        ("syncer: {patrol-seconds: soon}", "syncer.patrol-seconds: 'soon' is not a valid float"),
        ("syncer: {patrol-seconds: 0}", "syncer.patrol-seconds: 0.0 is not in the range x>=1"),
        ("up: {nodes: [3]}", "up.nodes: give a text or a number"),
        ("up: {nodes: }", "up.nodes: give a text or a number"),
        ("up: {ephemeral: 'yes'}", "up.ephemeral: give true or false"),
        ("up: {super-cluster: [east]}", "up.super-cluster: 'east': give ID=KUBECONFIG"),
        ("up: {super-cluster: ['east=']}", "up.super-cluster: 'east=': give ID=KUBECONFIG"),
        ("up: {tenants: {acme: 1}}", "up.tenants: give a text or a number"),
        ("controlplane: {etcd: {a: b}}", "controlplane.etcd: give a list"),
        ("controlplane: {authentication-token-webhook-cache-ttl: long}", "webhook-cache-ttl: 'long' is not a duration"),
        ("hollow: {start: 1}", "hollow.start: Takes 2 values"),
        ("up: [acme]", "up: write its fields below it"),
        ("- up", "it holds no sections"),
        ("up: {tenants: a, tenants: b}", "already set in map"),
        ("up: {", "yaml: "),
    ],
)  # fmt: skip
def test_every_command_refuses_an_invalid_file_and_names_the_field(
    file: Any, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(text)
    assert main(["run", "podscheduler", "--config", str(path)]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert str(path) in shown
    assert shown.count("\n") == 1


def test_every_role_of_run_and_up_reads_the_file() -> None:
    for name in config.SECTIONS:
        assert any(option.name == "config" for option in config.command_of(name).params), name


def test_fields_and_options_have_the_same_names() -> None:
    for name in config.SECTIONS:
        for flag, option in config.fields(name).items():
            assert f"--{flag}" in option.opts


def test_every_field_has_a_description() -> None:
    for name in config.SECTIONS:
        assert [flag for flag, option in config.fields(name).items() if not option.help] == [], name
