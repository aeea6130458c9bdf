"""Errors of the command line, and the messages for errors of other packages."""

import click

from vcsync.api.names import GROUP, InvalidName
from vcsync.api.objects import InvalidObject
from vcsync.kube.errors import ApiError, CredentialsError, KubeError, NotFound, Unauthorized, Unreachable
from vcsync.registration.errors import RegistrationError
from vcsync.status.server import ListenAddressError


class WrongInputError(click.ClickException):
    """The user's input is invalid; the message names the input and the remedy."""

    exit_code = 2


class FailedError(click.ClickException):
    """The command cannot be carried out now; the message says why and what helps."""

    exit_code = 1


def explain_error(error: BaseException) -> tuple[str, int] | None:
    """Turn an error into one line and an exit code.

    Returns:
        None for a defect, which a user cannot fix: the command shows its traceback.
    """
    if isinstance(error, BaseExceptionGroup):
        explanations = [explain_error(inner) for inner in error.exceptions]
        return None if None in explanations else explanations[0]
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, WRONG_INPUT):
        return str(error), WrongInputError.exit_code
    if isinstance(error, InvalidObject | KubeError | RegistrationError):
        return _with_remedy(error), FailedError.exit_code
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}", WrongInputError.exit_code
    return None


WRONG_INPUT = (InvalidName, CredentialsError, ListenAddressError)


def shows_no_installation(error: BaseException) -> bool:
    """Return whether an error shows that a cluster does not have vcsync's kinds."""
    if isinstance(error, BaseExceptionGroup):
        return all(shows_no_installation(inner) for inner in error.exceptions)
    named = isinstance(error, NotFound) and error.status.details and error.status.details.name
    return isinstance(error, NotFound) and GROUP in str(error) and not named


def _with_remedy(error: Exception) -> str:
    """Complete a server's error with its reason and advice."""
    if shows_no_installation(error):
        return (
            f"{error}: is vcsync installed there? See 'vcsync install --help'; --meta or $VCSYNC_META names the "
            "kubeconfig of the meta cluster"
        )
    if isinstance(error, Unauthorized):
        return f"{error}: the server does not accept the credentials of the kubeconfig; renew them"
    if isinstance(error, ApiError) and error.status.reason:
        return f"{error} ({error.status.reason})"
    if isinstance(error, Unreachable):
        return f"{error}: is the server running, and is its address in the kubeconfig correct?"
    return str(error)
