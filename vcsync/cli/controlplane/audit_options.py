"""The audit options of `vcsync run controlplane`; names are kube-apiserver's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from vcsync.cli.command.errors import WrongInputError

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class AuditOptions:
    """The audit log's location, policy and retention. Sizes are megabytes; `largest` is bytes."""

    policy: Path
    folder: Path
    size: int
    backups: int
    days: int
    total: int
    largest: int


def audit_options(command: Command) -> Command:
    """Add the options; `audit_of` converts their values to settings."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def audit_of(given: Mapping[str, Any]) -> AuditOptions | None:
    """Convert the options' values to settings; None: no audit log.

    Raises:
        WrongInputError: only one of the two required options is set.
    """
    policy, folder = given["audit_policy_file"], given["audit_log_path"]
    if policy is None and folder is None:
        return None
    if policy is None or folder is None:
        raise WrongInputError(
            "--audit-policy-file and --audit-log-path belong together: give both or none; "
            "the least policy is one rule with level: Metadata"
        )
    return AuditOptions(
        policy,
        folder,
        given["audit_log_maxsize"],
        given["audit_log_maxbackup"],
        given["audit_log_maxage"],
        given["audit_log_maxtotal"],
        given["audit_log_truncate_max_event_size"],
    )


def _bound(name: str, default: int, text: str, *, least: int = 1) -> Callable[[Any], Any]:
    return click.option(
        name, metavar="N", type=click.IntRange(min=least), default=default, show_default=True, help=text
    )


_OPTIONS = (
    click.option(
        "--audit-policy-file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="audit.k8s.io/v1 Policy: which requests are logged, and in which detail.",
    ),
    click.option(
        "--audit-log-path",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the audit logs, one file per tenant; created if missing.",
    ),
    _bound("--audit-log-maxsize", 100, "Megabytes of a log before it is rotated."),
    _bound("--audit-log-maxbackup", 10, "Rotated files kept per tenant.", least=0),
    _bound("--audit-log-maxage", 30, "Days for which a log is kept after its last event."),
    _bound("--audit-log-maxtotal", 10_240, "Megabytes of all logs; the oldest files of the largest log are deleted first."),
    _bound(
        "--audit-log-truncate-max-event-size", 2**20, "Bytes of an event; larger ones lose their bodies.",
        least=8192,
    ),
)  # fmt: skip
