"""The options of `vcsync run controlplane` for authentication, apart from certificates and ServiceAccounts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from vcsync.cli.command.durations import seconds_of

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class AuthenticationSettings:
    """Authentication settings, apart from certificates and ServiceAccount tokens."""

    token_file: Path | None = None
    config: Path | None = None
    webhook: Path | None = None
    webhook_cache_seconds: float = 120.0
    webhook_tenant_extra: str = "tenancy.x-k8s.io/tenant"
    bootstrap_tokens: bool = False


def authentication_options(command: _Command) -> _Command:
    """Add the options; `settings_of` converts their values to settings."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_of(given: Mapping[str, Any]) -> AuthenticationSettings:
    """Convert the options' values to settings."""
    return AuthenticationSettings(
        token_file=given["token_file"],
        config=given["authentication_config"],
        webhook=given["authentication_token_webhook_config_file"],
        webhook_cache_seconds=given["authentication_token_webhook_cache_ttl"],
        webhook_tenant_extra=given["authentication_token_webhook_tenant_extra"],
        bootstrap_tokens=given["enable_bootstrap_token_auth"],
    )


_OPTIONS = (
    click.option(
        "--token-file",
        metavar="FILE",
        type=_FILE,
        help='Static tokens: token,user,uid,"group,group"[,tenant] per line; read again when it changes.',
    ),
    click.option(
        "--authentication-config",
        metavar="FILE",
        type=_FILE,
        help="AuthenticationConfiguration: issuers of JSON web tokens (OIDC), each with 'tenant'; read again when it changes.",
    ),
    click.option(
        "--authentication-token-webhook-config-file",
        metavar="FILE",
        type=_FILE,
        help="Kubeconfig of a webhook that authenticates all other tokens by TokenReview.",
    ),
    click.option(
        "--authentication-token-webhook-cache-ttl",
        metavar="DURATION",
        default="2m0s",
        show_default=True,
        callback=lambda _context, _option, value: seconds_of(value),
        help="Time for which its answers are cached.",
    ),
    click.option(
        "--authentication-token-webhook-tenant-extra",
        metavar="KEY",
        default="tenancy.x-k8s.io/tenant",
        show_default=True,
        help="Key of the user's extra that names the tenant.",
    ),
    click.option(
        "--enable-bootstrap-token-auth",
        is_flag=True,
        help="Accept bootstrap tokens of tenants' kube-system Secrets.",
    ),
)
