"""Remembers the host name that a client asks for in its TLS handshake (SNI, RFC 6066)."""

import ssl
import sys

from vcsync.process.handshakes import BoundedHandshake


class NamedConnection(BoundedHandshake):
    """A TLS connection of a client.

    Attributes:
        asked: Host name that the client asked for. Empty: none.
    """

    asked: str = ""


def remember_server_names(context: ssl.SSLContext) -> None:
    """Have later connections of a server remember their host names; `server_name` returns them."""
    context.sslobject_class = NamedConnection
    context.sni_callback = _remember
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _report


def _report(problem: "sys.UnraisableHookArgs") -> None:
    """Report an error that Python ignores, except a host name that is not ASCII: clients could fill the log with these.

    Python ends the handshake of such a client before it calls `_remember`.
    """
    if not (isinstance(problem.exc_value, UnicodeDecodeError) and isinstance(problem.object, bytes)):
        sys.__unraisablehook__(problem)


def server_name(connection: ssl.SSLObject | None) -> str | None:
    """Return the host name that a client asked for, empty if it asked for none. None: the connection remembers none."""
    return connection.asked if isinstance(connection, NamedConnection) else None


def _remember(connection: object, name: str | None, _: ssl.SSLContext) -> None:
    if isinstance(connection, NamedConnection):
        connection.asked = name or ""
