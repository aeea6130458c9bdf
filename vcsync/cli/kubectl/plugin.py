"""`kubectl vcsync`: kubectl for one tenant, or for all tenants, with a kubeconfig of the operator's space; and logins.

    kubectl vcsync --tenant acme get pods
    kubectl vcsync --all-tenants get pods -A
    kubectl vcsync login --issuer URL --client-id ID

kubectl finds the program `kubectl-vcsync` on the PATH. It runs kubectl again with the URL of the tenant as its server.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from vcsync.api.names import is_dns_label
from vcsync.cli.command.errors import WrongInputError
from vcsync.client import ALL_REACHABLE, ALL_TENANTS, ALL_WITH_EXTERNAL

USAGE = """kubectl for one tenant, or for all tenants, with a kubeconfig of the operator's space.

Usage:
  kubectl vcsync --tenant NAME COMMAND...        any command of kubectl, in the control plane of that tenant
  kubectl vcsync --all-tenants get|describe ...  reads the objects of all tenants; get shows their tenants
  kubectl vcsync --all-tenants --external ...    reads external control planes as well, which are connected with --readable
  kubectl vcsync --all-tenants --reachable ...   the same without those that cannot be read now
  kubectl vcsync login|logout --help             logs in at an OpenID Connect provider

Examples:
  kubectl vcsync --tenant acme logs web-0 -n shop
  kubectl vcsync --all-tenants get pods -A --watch
"""
CONNECTION = frozenset({"--kubeconfig", "--context", "--cluster", "--user"})
"""Options of kubectl that choose the server."""
BEYOND = {"--external": ALL_WITH_EXTERNAL, "--reachable": ALL_REACHABLE}
"""Options that include external control planes, and the names of all tenants in URLs that do."""
READING = frozenset({"get", "describe", "api-resources", "api-versions", "explain"})
"""Commands that work for all tenants."""


class Invocation(NamedTuple):
    """The arguments of the plug-in.

    Attributes:
        tenant: name of the tenant, or one of the names of all tenants.
        arguments: arguments for kubectl.
        connection: those of `arguments` that choose the server.
    """

    tenant: str
    arguments: tuple[str, ...]
    connection: tuple[str, ...]


def main() -> int:
    """Run the plug-in with the arguments of the process. Returns the exit code."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")  # noqa: T201 - the help
        return 0
    if arguments[0] in ("login", "logout"):
        # Other commands need not wait for its imports.
        from vcsync.cli.kubectl.login import credentials  # noqa: PLC0415

        credentials.main(arguments, prog_name="kubectl vcsync")
    try:
        invocation = parse(arguments)
        server = tenant_url(server_of(invocation.connection), invocation.tenant)
    except WrongInputError as error:
        print(f"kubectl vcsync: {error}", file=sys.stderr)  # noqa: T201 - the command's message
        return 2
    command = ["kubectl", f"--server={server}", *invocation.arguments]
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own kubectl, without a shell
    except OSError as error:
        print(f"kubectl vcsync: cannot run kubectl: {error}", file=sys.stderr)  # noqa: T201
        return 2


def parse(arguments: Sequence[str]) -> Invocation:
    """Parse the arguments. The plug-in's own options may be at any place before `--`.

    Raises:
        WrongInputError: They name no tenant, or more than one; or all tenants for a command that writes.
    """
    tenants: list[str] = []
    kept: list[str] = []
    connection: list[str] = []
    beyond: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if argument == "--":
            kept += [argument, *rest]
            break
        if name == "--tenant":
            if not equals and not rest:
                raise WrongInputError("--tenant needs a name: --tenant acme")
            tenants.append(_tenant(value if equals else rest.pop(0)))
        elif argument == "--all-tenants":
            tenants.append(ALL_TENANTS)
        elif argument in BEYOND:
            beyond.append(argument)
        elif name in CONNECTION:
            taken = [argument] if equals or not rest else [argument, rest.pop(0)]
            kept += taken
            connection += taken
        elif name in ("--server", "-s"):
            raise WrongInputError(
                f"{name} is the plug-in's own choice: choose a server by --context or --kubeconfig"
            )
        else:
            kept.append(argument)
    if len(set(tenants)) != 1:
        raise WrongInputError("give either --tenant NAME or --all-tenants, once")
    if beyond and (len(set(beyond)) > 1 or tenants[0] != ALL_TENANTS):
        raise WrongInputError("give either --external or --reachable, and only with --all-tenants")
    if tenants[0] == ALL_TENANTS and not READING & set(kept):
        raise WrongInputError(
            f"--all-tenants only reads ({', '.join(sorted(READING))}): name one tenant to write"
        )
    return Invocation(BEYOND[beyond[0]] if beyond else tenants[0], tuple(kept), tuple(connection))


def _tenant(name: str) -> str:
    if not is_dns_label(name) or name == ALL_TENANTS:
        raise WrongInputError(
            f"{name!r} is no tenant name: use lower case letters, digits and '-', or --all-tenants"
        )
    return name


def server_of(connection: Sequence[str]) -> str:
    """Return the URL of the server that kubectl would use.

    Raises:
        WrongInputError: kubectl cannot tell.
    """
    command = [
        "kubectl",
        *connection,
        "config",
        "view",
        "--minify",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as above
    except OSError as error:
        raise WrongInputError(f"cannot run kubectl: {error}") from error
    if done.returncode or not done.stdout:
        raise WrongInputError(done.stderr.strip() or "the kubeconfig names no server")
    return done.stdout


def tenant_url(server: str, tenant: str) -> str:
    """Return the URL of a tenant's control plane.

    Raises:
        WrongInputError: The server's URL names a tenant already.
    """
    if "/tenants/" in server:
        raise WrongInputError(
            f"the kubeconfig is one of a tenant ({server}): give one of the operator's space"
        )
    return f"{server.rstrip('/')}/tenants/{tenant}"
