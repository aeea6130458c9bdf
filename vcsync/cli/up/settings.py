"""The settings of `vcsync up`, as its options create them and its process reads them, and its port."""

import socket
from dataclasses import dataclass

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.controlplane.settings import ControlPlaneSettings
from vcsync.cli.run.roles import Tuning
from vcsync.cli.up.members import Members
from vcsync.cli.up.memory import FIRST_START, Past
from vcsync.simulate.cluster import Settings as HollowSettings

LISTEN_FILE = "listen"
"""The file with the chosen port: kubeconfigs contain it, so it must not change."""
LOOPBACK = "127.0.0.1"
ROLES = "roles"
"""The folder of the roles' kubeconfigs, within the data folder."""


@dataclass(frozen=True)
class Wanted:
    """The settings of `vcsync up`.

    `status`: address of the status endpoint; None: the usual port, or a free one if that is taken. `cluster`: shape
    of hollow super clusters. `past`: knowledge of earlier starts.
    """

    plane: ControlPlaneSettings
    members: Members
    status: str | None
    cluster: HollowSettings
    tuning: Tuning
    past: Past = FIRST_START


def free_port(preferred: int) -> int:
    """Return a free port of this machine, the preferred one if possible.

    Raises:
        WrongInputError: no port is free.
    """
    for port in (preferred, 0):
        with socket.socket() as probe:
            # As servers do: connections that have just ended do not block a port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise WrongInputError("no port is free; name one with --listen")
