"""TLS servers whose clients may send a bounded number of bytes before the handshake is complete.

OpenSSL reads all certificates of a client before it knows whether it trusts one. A hundred take 12 ms of the event loop, and its
own limit is 100 KiB.
"""

import ssl
from typing import Any

MAX_HANDSHAKE = 16 * 1024
"""Most bytes of a client in a handshake. With a chain of three RSA certificates they are 6 KiB. Go's servers read 256 KiB."""
USUAL_HANDSHAKE = 4 * 1024
"""Bytes for which a handshake takes one or two milliseconds. Longer ones count as several."""


class BoundedHandshake(ssl.SSLObject):
    """A TLS connection that gives OpenSSL a bounded number of bytes until its handshake is complete.

    Attributes:
        handshake_bytes: Bytes that it was given.
    """

    handshake_bytes: int = 0
    _received: ssl.MemoryBIO | None = None
    _given: ssl.MemoryBIO | None = None

    def pass_on(self, received: ssl.MemoryBIO, given: ssl.MemoryBIO) -> None:
        """Set where received bytes come from, and where OpenSSL reads."""
        self._received, self._given = received, given

    def do_handshake(self) -> None:
        """Continue the handshake.

        Raises:
            ssl.SSLWantReadError: The client has to send more.
            ssl.SSLError: It has sent too much, or something wrong.
        """
        received, given = self._received, self._given
        if received is not None and given is not None:
            piece = received.read(MAX_HANDSHAKE - self.handshake_bytes)
            given.write(piece)
            self.handshake_bytes += len(piece)
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            if self.handshake_bytes < MAX_HANDSHAKE:
                raise
            raise ssl.SSLError("the client's handshake is too long") from None

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - the name in ssl
        """Return or store decrypted bytes."""
        self._give()
        return super().read(len, buffer)

    def pending(self) -> int:
        """Return the number of bytes that can be read, perhaps after decryption. uvloop reads while there are some."""
        return super().pending() + (self._given.pending if self._given is not None else 0)

    def unwrap(self) -> None:
        """End the TLS connection."""
        self._give()
        super().unwrap()

    def _give(self) -> None:
        received, given = self._received, self._given
        if received is not None and given is not None and received.pending:
            given.write(received.read())


class BoundedContext(ssl.SSLContext):
    """TLS settings of a server, whose handshakes are bounded."""

    sslobject_class = BoundedHandshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return a TLS connection on buffers."""
        given = ssl.MemoryBIO()
        made = super().wrap_bio(given, outgoing, server_side, server_hostname, session)
        assert isinstance(made, BoundedHandshake)  # noqa: S101 - `sslobject_class` says so
        made.pass_on(incoming, given)
        return made
