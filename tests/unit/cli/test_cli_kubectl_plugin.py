"""`kubectl vcsync`: its arguments, and the server that it chooses."""

import pytest

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.kubectl.plugin import Invocation, main, parse, tenant_url


@pytest.mark.parametrize(
    ("line", "tenant", "kept", "connection"),
    [
        ("--tenant acme get pods", "acme", "get pods", ""),
        ("get pods --tenant=acme -n shop", "acme", "get pods -n shop", ""),
        ("--tenant acme --tenant acme get pods", "acme", "get pods", ""),
        ("--all-tenants get pods -A", "all", "get pods -A", ""),
        ("--all-tenants --external get pods -A", "all+external", "get pods -A", ""),
        ("get pods -A --reachable --all-tenants", "all+reachable", "get pods -A", ""),
        ("--context east get --all-tenants pods", "all", "--context east get pods", "--context east"),
        (
            "--kubeconfig=k --tenant a exec p -- sh --tenant b",
            "a",
            "--kubeconfig=k exec p -- sh --tenant b",
            "--kubeconfig=k",
        ),
    ],
)
def test_arguments(line: str, tenant: str, kept: str, connection: str) -> None:
    expected = Invocation(tenant, tuple(kept.split()), tuple(connection.split()))
    assert parse(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("get pods", "either --tenant NAME or --all-tenants"),
        ("--tenant a --tenant b get pods", "either --tenant NAME or --all-tenants"),
        ("--tenant a --all-tenants get pods", "either --tenant NAME or --all-tenants"),
        ("get pods --tenant", "--tenant needs a name"),
        ("--tenant A get pods", "'A' is no tenant name"),
        ("--tenant a/../b get pods", "is no tenant name"),
        ("--tenant all get pods", "or --all-tenants"),
        ("--tenant a --external get pods", "only with --all-tenants"),
        ("--all-tenants --external --reachable get pods", "either --external or --reachable"),
        ("--all-tenants --external delete pods --all", "name one tenant to write"),
        ("--all-tenants delete pods --all", "name one tenant to write"),
        ("--tenant a --server https://x get pods", "choose a server by --context"),
        ("--tenant a -s https://x get pods", "choose a server by --context"),
    ],
)
def test_wrong_arguments_name_the_remedy(line: str, said: str) -> None:
    with pytest.raises(WrongInputError, match=said):
        parse(line.split())


def test_the_server_of_a_tenant() -> None:
    assert tenant_url("https://plane:6443/", "acme") == "https://plane:6443/tenants/acme"
    with pytest.raises(WrongInputError, match="is one of a tenant"):
        tenant_url("https://plane:6443/tenants/acme", "umbrella")


def test_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-vcsync", "get", "pods"])
    assert main() == 2
    assert capsys.readouterr().err == "kubectl vcsync: give either --tenant NAME or --all-tenants, once\n"


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-vcsync", "--help"])
    assert main() == 0
    assert "--all-tenants get" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("server", "said"),
    [("", "the kubeconfig names no server"), ("https://p/tenants/a", "is one of a tenant")],
)
def test_a_kubeconfig_that_is_not_the_operators(
    server: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\nprintf '%s' '{server}'\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("sys.argv", ["kubectl-vcsync", "--tenant", "acme", "get", "pods"])
    assert main() == 2
    assert said in capsys.readouterr().err
