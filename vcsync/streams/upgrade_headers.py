"""The headers by which connections are upgraded: those that are sent on, and those that are returned. Pure."""

from collections.abc import Mapping
from typing import Final

BEARER = "base64url.bearer.authorization.k8s.io."
"""Prefix of the token that browsers put into the list of WebSocket protocols. It is not sent to kubelets."""
FORWARDED = frozenset(
    {
        "upgrade",
        "connection",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-websocket-extensions",
        "x-stream-protocol-version",
    }
)
"""Headers that are sent to a kubelet: those of the upgrade, and no credentials."""
RETURNED = frozenset(
    {
        "upgrade",
        "connection",
        "sec-websocket-accept",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
        "x-stream-protocol-version",
    }
)
"""Headers of a kubelet's answer that are sent to the client."""
UNSUPPORTED: Final = "only upgrades to websocket and SPDY/3.1 are supported"
"""Message about an upgrade to another protocol."""
PROTOCOLS = {"websocket": "websocket", "spdy/3.1": "SPDY/3.1"}
"""Protocols to which connections may be upgraded, by their lower-case name. HTTP/2 is not among them: its requests would
pass no filter."""
_OWN = ("connection:", "upgrade:")


def wanted_protocol(headers: Mapping[str, str]) -> str | None:
    """Return the protocol to which a request upgrades its connection.

    It is empty if the request does not upgrade it, and None if the protocol is not supported.
    """
    upgrade = headers.get("Upgrade", "")
    if not upgrade or "upgrade" not in headers.get("Connection", "").lower():
        return ""
    return PROTOCOLS.get(upgrade.lower())


def upgrade_lines(sent: Mapping[str, str]) -> list[str]:
    """Return the header lines of a client's upgrade request that are sent on; see `FORWARDED`."""
    lines = [f"{name}: {value}" for name, value in sent.items() if name.lower() in FORWARDED]
    offered = [value for name, value in sent.items() if name.lower() == "sec-websocket-protocol"]
    protocols = [each.strip() for value in offered for each in value.split(",")]
    kept = ", ".join(each for each in protocols if each and not each.startswith(BEARER))
    if kept:
        lines.append(f"Sec-WebSocket-Protocol: {kept}")
    return lines


def forwarded_upgrade(sent: Mapping[str, str], protocol: str, *, extensions: bool = True) -> list[str]:
    """Return the header lines of a client's upgrade request that are sent to an API server.

    A proxy before that server drops the headers that `Connection` names, so the client's is not sent.

    Args:
        sent: Headers of the client.
        protocol: Result of `wanted_protocol`, not empty.
        extensions: Whether the client may negotiate extensions of WebSockets, such as compression.
    """
    own = _OWN if extensions else (*_OWN, "sec-websocket-extensions:")
    lines = [line for line in upgrade_lines(sent) if not line.lower().startswith(own)]
    return [*lines, "Connection: Upgrade", f"Upgrade: {protocol}"]
