"""`kubectl vcsync login | logout`: gives kubectl the token of a user of an OpenID Connect provider.

kubectl runs it as an exec credential plug-in, with each command. Tokens are kept in a file, and renewed without the user as
long as the provider allows it.
"""

import asyncio
import os
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import click

from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.kubectl import token_cache
from vcsync.cli.kubectl.oidc_tokens import Client, LoginError, Tokens, exec_credential, exec_info, subject
from vcsync.cli.kubectl.token_cache import TokenCache

EXEC_INFO = "KUBERNETES_EXEC_INFO"
"""Environment variable that kubectl sets for its plug-ins."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables of desktops."""
GRANTS = ("auto", "browser", "device")

cache_option = click.option(
    "--token-cache-dir",
    "cache_folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=token_cache.DEFAULT,
    show_default=True,
    help="Folder in which tokens are kept, readable by you only.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def credentials() -> None:
    """Commands of `kubectl vcsync` for credentials."""


@credentials.command(
    epilog=example(
        "kubectl vcsync login --issuer https://sso.example.com/realms/platform --client-id vcsync",
        "vcsync tenant kubeconfig acme --issuer https://sso.example.com/realms/platform --client-id vcsync > acme.kubeconfig",
    )
)
@click.option("--issuer", required=True, metavar="URL", help="URL of the OpenID Connect provider.")
@click.option("--client-id", required=True, metavar="ID", help="Id of the client at the provider.")
@click.option(
    "--client-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the client's secret. A public client, which needs none, is safer.",
)
@click.option("--scope", "scopes", multiple=True, help="Scope besides openid; may be repeated.")
@click.option(
    "--certificate-authority",
    "authority",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the CA of the provider (default: the CAs of this machine).",
)
@click.option(
    "--grant",
    type=click.Choice(GRANTS),
    default="auto",
    show_default=True,
    help="How to log in: in a browser on this machine, or by a code that any device confirms.",
)
@click.option(
    "--redirect-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of http://127.0.0.1:PORT/callback, for providers that must know it (default: any free one).",
)
@cache_option
def login(  # noqa: PLR0917  one command's options
    issuer: str,
    client_id: str,
    client_secret_file: Path | None,
    scopes: tuple[str, ...],
    authority: Path | None,
    grant: str,
    redirect_port: int,
    cache_folder: Path,
) -> None:
    """Log in at an OpenID Connect provider.

    kubectl runs this command by itself if the kubeconfig's user names it (`exec`). Run by hand, it logs in and shows who you are.
    """
    try:
        version, interactive = _asked_by(os.environ)
        secret = "" if client_secret_file is None else client_secret_file.read_text().strip()
        cache = TokenCache(cache_folder, [issuer, client_id, *sorted(scopes)])
        with cache.locked():
            tokens = cache.read()
            if tokens is None or not tokens.last(time.time()):
                client = Client(issuer, client_id, scopes, secret, authority)
                tokens = asyncio.run(_renew(client, tokens, grant, redirect_port, interactive=interactive))
                cache.write(tokens)
    except LoginError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    if version:
        say(exec_credential(version, tokens))
    else:
        say(f"logged in as {subject(tokens)}", err=True)


@credentials.command()
@cache_option
def logout(cache_folder: Path) -> None:
    """Forget the tokens of all logins on this machine. The provider's own session in a browser remains."""
    try:
        count = token_cache.forget(cache_folder)
    except LoginError as error:
        raise click.ClickException(str(error)) from error
    say(f"{count} {'login' if count == 1 else 'logins'} forgotten", err=True)


def _asked_by(environment: Mapping[str, str]) -> tuple[str, bool]:
    """Return the API version that kubectl asks for, and whether a user can be asked. "": a person runs the command."""
    text = environment.get(EXEC_INFO)
    return exec_info(text) if text else ("", True)


async def _renew(
    client: Client,
    tokens: Tokens | None,
    grant: str,
    redirect_port: int,
    *,
    interactive: bool,
) -> Tokens:
    # kubectl starts this program with each of its commands, and most need no HTTP client.
    from vcsync.cli.kubectl.oidc_client import provider  # noqa: PLC0415

    async with provider(client, _say) as found:
        if tokens is not None and tokens.refresh_token:
            renewed = await found.refresh(tokens.refresh_token)
            if renewed is not None:
                return renewed
        if not interactive:
            raise LoginError(
                "you are not logged in, and kubectl has no terminal here to ask you: run "
                f"'kubectl vcsync login --issuer {client.issuer} --client-id {client.client_id}' first"
            )
        if grant == "auto":
            grant = "browser" if has_browser(os.environ) or not found.has_device_codes else "device"
        return await (found.by_browser(redirect_port) if grant == "browser" else found.by_device())


def has_browser(environment: Mapping[str, str]) -> bool:
    """Return whether a browser can be opened for the user of this process."""
    if not any(environment.get(name) for name in DISPLAYS) or environment.get("SSH_CONNECTION"):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _say(line: str) -> None:
    say(line, err=True)
