"""Limits of the time of upgraded connections."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Times after which exec, attach and port-forward end. 0: never.

    Attributes:
        idle_seconds: Time without bytes other than pings, in either direction. The default is that of kubelets
            (`--streaming-connection-idle-timeout`).
        total_seconds: Time since the connection was upgraded.
    """

    idle_seconds: float = 4 * 3600.0
    total_seconds: float = 24 * 3600.0

    def left(self, began: float, active: float, now: float) -> float | None:
        """Return the seconds until a connection ends if nothing passes; None: it does not end.

        Args:
            began: When it was upgraded, in seconds.
            active: When bytes passed for the last time.
            now: The present time.
        """
        ends = [
            since + seconds - now
            for since, seconds in ((active, self.idle_seconds), (began, self.total_seconds))
            if seconds
        ]
        return max(0.0, min(ends)) if ends else None


UNLIMITED = StreamLimits(0.0, 0.0)
