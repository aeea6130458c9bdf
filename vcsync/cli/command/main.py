"""Entry point: the table of lazily loaded commands, and the conversion of errors into messages and exit codes."""

import importlib
import sys
from collections.abc import Sequence

import click

from vcsync import __version__
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.process.end_signal import is_free
from vcsync.process.legible import legible
from vcsync.process.restarts import supervise

EXIT_FAILED = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130

SUPERVISED = "up"
"""The command that starts itself again when its event loop stands. Others run under a supervisor, such as systemd."""

COMMANDS = {
    "up": ("vcsync.cli.up.commands:up", "Run the whole system in one process on this machine."),
    "demo": ("vcsync.cli.demo.commands:demo", "Play a walk-through with a commentary."),
    "install": (
        "vcsync.cli.registration.install:install",
        "Install the CRDs, roles and namespaces into the meta cluster.",
    ),
    "super": ("vcsync.cli.super.commands:supers", "Register, list, cordon, drain and remove super clusters."),
    "tenant": ("vcsync.cli.tenant.commands:tenants", "Create, register, list and remove tenants."),
    "brake": (
        "vcsync.cli.brake.commands:brakes",
        "Show and release deletions that wait because they are implausibly many.",
    ),
    "drift": (
        "vcsync.cli.drift.commands:drift",
        "Show changes that were made in super clusters only, and repaired.",
    ),
    "run": ("vcsync.cli.run.commands:run", "Run the control plane, the syncers and schedulers."),
    "hollow": (
        "vcsync.cli.hollow.nodes:hollow",
        "Let nodes of a hollow super cluster fail, run short, and recover.",
    ),
    "setup": (
        "vcsync.cli.up.setup:setup",
        "Set up tenants and super clusters for roles that run as separate processes.",
    ),
    "backup": ("vcsync.cli.controlplane.backup:backup", "Back up the data of an embedded control plane."),
    "restore": ("vcsync.cli.controlplane.backup:restore", "Restore a backup into an empty data folder."),
    "status": (
        "vcsync.cli.status.commands:status",
        "Show super clusters, tenants and where namespaces are placed.",
    ),
    "usage": (
        "vcsync.cli.usage.commands:usage",
        "Show what tenants used of an embedded control plane, and what it costs.",
    ),
    "version": ("vcsync.cli.command.version:version", "Show the version of vcsync."),
    "explain": (
        "vcsync.cli.explain.commands:explain",
        "Explain where a pod or namespace is and why, what it waits for, or a super cluster.",
    ),
    "snapshot": (
        "vcsync.cli.whatif.snapshots:snapshot",
        "Save the state of the pool, and replay decisions on it.",
    ),
    "rebalance": (
        "vcsync.cli.whatif.rebalance:rebalance",
        "Move placed slices so that the pool is used more evenly.",
    ),
    "what-if": (
        "vcsync.cli.whatif.commands:what_if",
        "Show what would move or wait if the pool, a tenant or a setting changed.",
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101  the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example(
        "export VCSYNC_META=meta.kubeconfig",
        "vcsync install",
        "vcsync super add r1 --kubeconfig r1.kubeconfig",
        "vcsync tenant add acme --kubeconfig acme.kubeconfig --weight 2",
        "vcsync run all",
    ),
)
@click.version_option(__version__, message="vcsync %(version)s")
def vcsync() -> None:
    """Tenants with Kubernetes control planes of their own on a pool of super clusters.

    Commands need a kubeconfig of the meta cluster, which holds vcsync's own objects. They use the first of --meta,
    $VCSYNC_META, $KUBECONFIG, the ServiceAccount of the Pod they run in, and ./vcsync-data/admin.kubeconfig, which
    'vcsync up' writes.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 on failure (one line on stderr gives the reason), 2 on wrong input (one line says what
        to change), 130 after Ctrl-C.
    """
    if arguments is None and sys.argv[1:2] == [SUPERVISED] and is_free():
        supervise("vcsync: the event loop stood, so the process ended; it is started again")
    try:
        # Without standalone mode click passes errors on, and returns the code of an early `exit` (--help).
        code = vcsync.main(
            args=list(arguments) if arguments is not None else None, prog_name="vcsync", standalone_mode=False
        )
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except click.UsageError as error:
        return _refuse(error)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except BrokenPipeError:
        # The reader of the output has closed the pipe, so nothing can be reported.
        sys.stderr.close()
        return EXIT_FAILED
    except Exception as error:
        from vcsync.cli.command.errors import explain_error  # noqa: PLC0415  loads the Kubernetes client

        explanation = explain_error(error)
        if explanation is None:
            raise
        return _complain(*explanation)
    return code if isinstance(code, int) else 0


def _refuse(error: click.UsageError) -> int:
    """Print the error in the arguments, or the list of commands if no command is given."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(error.format_message(), err=True)
        return error.exit_code
    where = error.ctx.command_path if error.ctx else "vcsync"
    return _complain(f"{error.format_message()} (see '{where} --help')", error.exit_code)


def _complain(message: str, code: int) -> int:
    """Print one line to stderr."""
    say(f"vcsync: {legible(' '.join(message.split()))}", err=True)
    return code
