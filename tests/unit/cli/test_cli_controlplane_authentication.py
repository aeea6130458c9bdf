"""Options of `vcsync run controlplane` about authentication."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from vcsync.cli.command.main import main
from vcsync.cli.controlplane.authentication_options import (
    AuthenticationSettings,
    authentication_options,
    seconds_of,
    settings_of,
)


@click.command()
@authentication_options
def command(**given: Any) -> None:
    click.echo(repr(settings_of(given)))


@pytest.mark.parametrize(("text", "seconds"), [("2m0s", 120), ("30s", 30), ("1.5h", 5400), ("250ms", 0.25)])
def test_durations_have_gos_notation(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "m", "2m 3s", "-1s", "2d"])
def test_other_texts_are_refused_as_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        seconds_of(text)


def test_only_certificates_and_service_account_tokens_are_accepted_by_default() -> None:
    assert CliRunner().invoke(command, []).output.strip() == repr(AuthenticationSettings())


def test_options_become_settings(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    arguments = ["--token-file", "--authentication-config", "--authentication-token-webhook-config-file"]
    given = [word for each in arguments for word in (each, str(path))]
    given += ["--authentication-token-webhook-cache-ttl", "10s", "--enable-bootstrap-token-auth"]
    given += ["--authentication-token-webhook-tenant-extra", "example.org/tenant"]
    wanted = AuthenticationSettings(path, path, path, 10.0, "example.org/tenant", True)
    assert CliRunner().invoke(command, given).output.strip() == repr(wanted)


@pytest.mark.parametrize(
    "arguments",
    [
        ["revoke", "acme"],
        ["revoke", "acme", "--user", "a", "--serial", "1"],
        ["kubeconfig", "acme", "--role", "syncer", "--user", "a"],
        ["kubeconfig", "acme", "--role", "syncer", "--group", "a"],
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str]) -> None:
    assert main(["tenant", *arguments]) != 0
