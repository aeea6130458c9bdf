"""The serving certificate of a status endpoint, which is read again when it is renewed."""

import ssl
from collections.abc import Callable

import structlog

from vcsync.kube.tls import load_identity, serving_context

RENEWAL_SECONDS = 60.0
"""Seconds between two reads."""
_log = structlog.get_logger(__name__)


class ServingCertificate:
    """A certificate with its key.

    Args:
        read: Returns certificate with its chain, and key without a password, as PEM. It may raise OSError.

    Raises:
        OSError: They cannot be read.
        ValueError: They are invalid, or do not match.

    Attributes:
        context: TLS settings of the server.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._identity = read()
        self._told = ""
        self.context: ssl.SSLContext = serving_context(self._identity)

    def refresh(self) -> None:
        """Use the present certificate for new connections. The former one stays in use while it is invalid."""
        problem = ""
        try:
            identity = self._read()
            if identity != self._identity:
                serving_context(identity)  # refuses what would leave the server with half of a pair
                load_identity(self.context, identity)
                self._identity = identity
                _log.info("the certificate of the status endpoint was renewed")
        except (OSError, ValueError) as error:
            problem = str(error)
        if problem and problem != self._told:
            _log.warning("the certificate of the status endpoint cannot be renewed", error=problem)
        self._told = problem
