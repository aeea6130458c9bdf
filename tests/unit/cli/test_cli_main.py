"""The command line: exit codes, one line per error, help with examples."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest

from vcsync import __version__
from vcsync.cli.command import main as main_module
from vcsync.cli.command.errors import FailedError, WrongInputError, explain_error
from vcsync.cli.command.main import COMMANDS, LazyGroup, main, vcsync
from vcsync.cli.command.output import print_objects
from vcsync.cli.tenant import embedded
from vcsync.kube.errors import CredentialsError, Unauthorized, Unreachable, api_error
from vcsync.tenancy.caches import CachesNotSynced


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VCSYNC_META", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["super", "add", "r1"], "Missing option '--kubeconfig'"),
        (["brake", "release"], "name one tenant, or give --super-cluster ID, or --all"),
        (["brake", "release", "acme", "--all"], "name one tenant"),
        (["brake", "release", "acme", "--super-cluster", "r1"], "name one tenant"),
        (["brake", "release", "--all", "--super-cluster", "r1"], "name one tenant"),
        (["super", "add", "R1", "--kubeconfig", "x"], "'R1' cannot identify a super cluster"),
        (["super", "add", "r" * 58, "--kubeconfig", "x"], "at most 57 characters"),
        (["super", "add", "r1", "--kubeconfig", "/nowhere/k"], "cannot read /nowhere/k"),
        (["super", "add", "r1", "--kubeconfig", "x", "--headroom", "cpu=much"], "--headroom 'cpu=much'"),
        (["tenant", "add", "a.b", "--kubeconfig", "x"], "'a.b' is not a tenant name"),
        (["tenant", "add", "a" * 55, "--kubeconfig", "x"], "choose a shorter name"),
        (["tenant", "add", "acme", "--kubeconfig", "x", "--weight", "0"], "--weight"),
        (
            ["tenant", "add", "acme", "--kubeconfig", "x", "--quota", "cpu"],
            "--quota 'cpu': give RESOURCE=AMOUNT",
        ),
        (
            ["tenant", "add", "acme", "--kubeconfig", "x", "--slice-size", "cpu=1"],
            "needs both cpu and memory",
        ),
        (["tenant", "add", "acme", "--kubeconfig", "x", "--api-endpoint", "a:b:c"], "--api-endpoint 'a:b:c'"),
        (
            ["tenant", "add", "acme", "--kubeconfig", "x", "--service-cidr", "10.64.0.1/20"],
            "'10.64.0.1/20' is no range of addresses",
        ),
        (["explain", "pod", "acme/default"], "give TENANT/NAMESPACE/NAME"),
        (["run", "syncer", "--super-cluster", "r1", "--shard", "5/4"], "--shard '5/4'"),
        (["run", "all", "--kubeconfigs", "/nowhere"], "/nowhere"),
        (["run", "all", "--kubeconfigs", "/"], "/syncer.kubeconfig does not exist"),
        (["run", "nsscheduler", "--default-slice", "cpu=2"], "--default-slice needs both cpu and memory"),
        (["run", "nsscheduler", "--default-slice", "cpu=0,memory=1"], "greater than zero"),
        (
            ["run", "nsscheduler", "--default-slice", "cpu=1,memory=1,gpu=1"],
            "--default-slice gpu: unknown resource; known ones are cpu, memory, pods",
        ),
        (["run", "podscheduler", "--suspect-after", "300"], "--suspect-after 300 must be less than"),
        (["run", "nsscheduler", "--policy", "random"], "--policy"),
        (["run", "syncer", "--super-cluster", "r1", "--listen", "here"], "listen address 'here'"),
        (["run", "nsscheduler", "--tls-cert-file", "x"], "--tls-private-key-file is missing"),
        (["run", "controllers", "--data", "x", "--tls-private-key-file", "x"], "--tls-cert-file is missing"),
        (["status", "--endpoint", "x:1", "--endpoint-token-file", "/nowhere/t"], "/nowhere/t: No such file"),
        (["status", "--endpoint", "x:1", "--endpoint-ca", "/nowhere/ca"], "/nowhere/ca: No such file"),
        (["status", "--endpoint", "x:1", "--endpoint-ca", __file__], "it has no certificate (PEM)"),
        (["super", "list"], "no kubeconfig of the meta cluster: give --meta FILE or set $VCSYNC_META"),
        (["install", "--kubeconfigs", "somewhere"], "give --meta"),
        (["status", "--endpoint", "ftp://x"], "--endpoint 'ftp://x'"),
        (
            ["up", "--tenants", "r1"],
            "'r1' cannot be used: every tenant and super cluster needs a name of its own",
        ),
        (
            ["up", "--tenants", "acme,acme"],
            "'acme' cannot be used: every tenant and super cluster needs a name of its own",
        ),
        (["up", "--tenants", "system"], "'system' cannot be used: it is reserved"),
        (["up", "--super-cluster", "east"], "give ID=KUBECONFIG"),
        (["up", "--super-cluster", "east=/nowhere/k"], "cannot read /nowhere/k"),
        (["up", "--ephemeral", "--data", "d"], "give one of them"),
        (["up", "--listen", "127.0.0.1:0"], "kubeconfigs need a fixed port"),
        (["up", "--status", "here"], "listen address 'here'"),
    ],
)
def test_wrong_input_is_one_line_that_names_it_and_code_2(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # where no 'vcsync up' has left its data
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.startswith("vcsync: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "command"), [([], "up "), (["super"], "cordon ")])
def test_without_a_command_the_commands_are_listed(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert any(line.strip().startswith(command) for line in shown.err.splitlines())


def test_several_files_in_the_environment_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert main(["super", "list"]) == 2
    assert "name one with --meta" in capsys.readouterr().err


class Failing(LazyGroup):
    """A group whose commands raise the error of the test."""

    error: BaseException = RuntimeError()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        def fail() -> None:
            raise type(self).error

        return click.Command(cmd_name, callback=fail)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Failing]]:
    monkeypatch.setattr(main_module, "vcsync", Failing(name="vcsync"))
    return Failing


NOT_FOUND = b'{"kind":"Status","code":404,"reason":"NotFound","message":"not here","details":{"name":"r1"}}'


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FailedError("no room"), 1, "vcsync: no room\n"),
        (WrongInputError("no number"), 2, "vcsync: no number\n"),
        (api_error(404, NOT_FOUND, endpoint="meta"), 1, "vcsync: meta: 404 not here (NotFound)\n"),
        (
            ExceptionGroup("several", [FailedError("first"), FailedError("second")]),
            1,
            "vcsync: first\n",
        ),
        (CredentialsError("field token: empty"), 2, "vcsync: field token: empty\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    error: BaseException, code: int, said: str, failing: type[Failing], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = error
    assert main(["install"]) == code
    assert capsys.readouterr().err.lstrip() == said  # click ends the line of ^C


def test_a_defect_keeps_its_traceback(failing: type[Failing]) -> None:
    failing.error = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError):
        main(["install"])
    assert explain_error(ExceptionGroup("mixed", [FailedError("x"), ZeroDivisionError()])) is None


def test_errors_of_servers_have_a_hint() -> None:
    waited = ExceptionGroup("syncer", [CachesNotSynced("could not read within 120 s: secrets")])
    assert explain_error(waited) == ("could not read within 120 s: secrets", 1)
    unreachable = explain_error(Unreachable("refused", endpoint="r1"))
    assert unreachable is not None
    assert "is the server running" in unreachable[0]
    unauthorized = explain_error(api_error(401, b"{}", endpoint="r1"))
    assert isinstance(api_error(401, b"{}"), Unauthorized)
    assert unauthorized is not None
    assert "renew them" in unauthorized[0]
    absent = api_error(
        404, b"404 page not found", endpoint="meta", request="GET /apis/tenancy.x-k8s.io/v1alpha1/x"
    )
    message = explain_error(absent)
    assert message is not None
    assert "vcsync install" in message[0]


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_every_command_has_help_and_an_example_that_is_a_command() -> None:
    found = dict(commands(vcsync))
    assert {path[0] for path in found} == set(COMMANDS)
    for path, command in found.items():
        assert command.help, path
        assert command.epilog, path
        for line in command.epilog.splitlines()[2:]:
            words = line.split()
            assert words[0] == "vcsync", line
            assert any(tuple(words[1 : 1 + len(known)]) == known for known in found), line


def test_help_does_not_load_the_kubernetes_client() -> None:
    code = "import sys; from vcsync.cli.command.main import main; main(['--help']); print('vcsync.kube.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert "Create, register, list and remove tenants." in done.stdout


def test_the_version_is_shown_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == __version__


@pytest.mark.parametrize("content", ["", "\n", "# only a comment\n", "---\n", "null"])
def test_an_empty_kubeconfig_is_reported_as_empty(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    assert main(["super", "list", "--meta", str(path)]) != 0
    assert "it is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ("a word", "it is not a kubeconfig: it has no clusters"),
        ("a: [", "not YAML in line 2"),
        ("{}", "field contexts: it is missing"),
        (
            "{clusters: [{name: c, cluster: {server: x}}], contexts: [{name: c, context: {cluster: c}}]}",
            "cluster.server",
        ),
    ],
)
def test_the_error_names_the_unusable_one_of_two_kubeconfigs(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    server = "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}]}"
    good.write_text(server)
    bad.write_text(content)
    for meta, added in ((good, bad), (bad, good)):
        assert main(["super", "add", "r1", "--kubeconfig", str(added), "--meta", str(meta)]) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"vcsync: kubeconfig {bad}: ")
        assert said in message


def test_every_command_that_shows_objects_has_all_output_formats() -> None:
    shown = [
        each.type.choices
        for command in ("version", "status")
        for each in vcsync.get_command(click.Context(vcsync), command).params  # type: ignore[union-attr]
        if each.name == "form" and isinstance(each.type, click.Choice)
    ]
    assert [set(each) for each in shown] == [{"table", "wide", "name", "json", "yaml"}] * 2


def test_names_and_wide_tables(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("name", "wide", "table"):
        print_objects([{}], form, ("A",), [("x",)], names=["tenant/x\x1b"], more=(("B",), [("y",)]))
    assert capsys.readouterr().out == "tenant/x\\u001b\nA  B\nx  y\nA\nx\n"


async def test_tenants_are_listed_without_the_operators_space_and_clusters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spaces = [("acme", "virtual"), ("r1", "own"), ("system", "virtual")]
    plain = {"uid": "u", "created": "2026-01-01T00:00:00Z", "phase": "Ready", "controllers": "vcsync"}
    answer = json.dumps({"items": [{"name": name, "nodes": nodes, **plain} for name, nodes in spaces]})

    class Server:
        async def request(self, method: str, path: str) -> bytes:
            assert (method, path) == ("GET", embedded.TENANTS)
            return answer.encode()

    @asynccontextmanager
    async def served(*_: object) -> AsyncIterator[Server]:
        yield Server()

    monkeypatch.setattr(embedded, "control_plane", served)
    for everything, names in ((False, ["acme"]), (True, ["acme", "r1", "system"])):
        await embedded.list_("json", Path("data"), None, everything=everything)
        assert [each["name"] for each in json.loads(capsys.readouterr().out)] == names
