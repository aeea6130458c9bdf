"""The errors of the command line, and what a user gets to read of those of other rooms."""

import click

from vcsync.api.names import GROUP, InvalidName
from vcsync.api.objects import InvalidObject
from vcsync.kube.errors import ApiError, CredentialsError, KubeError, NotFound, Unauthorized, Unreachable
from vcsync.status.server import ListenAddressError


class WrongInputError(click.ClickException):
    """What the user gave cannot be used; the message names it and the remedy."""

    exit_code = 2


class FailedError(click.ClickException):
    """What the user asked for cannot be done now; the message says why and what helps."""

    exit_code = 1


def explain_error(error: BaseException) -> tuple[str, int] | None:
    """Turn an error into one line and an exit code.

    Returns:
        None for an error that no user can do anything about: a defect, to be seen with its traceback.
    """
    if isinstance(error, BaseExceptionGroup):
        told = [explain_error(inner) for inner in error.exceptions]
        return None if None in told else told[0]
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, WRONG_INPUT):
        return str(error), WrongInputError.exit_code
    if isinstance(error, InvalidObject | KubeError):
        return _with_remedy(error), FailedError.exit_code
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}", WrongInputError.exit_code
    return None


WRONG_INPUT = (InvalidName, CredentialsError, ListenAddressError)


def _with_remedy(error: Exception) -> str:
    """Add to an error of a server its reason, and what to look at."""
    if (
        isinstance(error, NotFound)
        and GROUP in str(error)
        and not (error.status.details and error.status.details.name)
    ):
        return f"{error} (NotFound): is vcsync installed there? ('vcsync install --help')"
    if isinstance(error, Unauthorized):
        return f"{error}: the server does not accept the credentials of the kubeconfig; renew them"
    if isinstance(error, ApiError) and error.status.reason:
        return f"{error} ({error.status.reason})"
    if isinstance(error, Unreachable):
        return f"{error}: is the server up, and its address in the kubeconfig right?"
    return str(error)
