"""Configures logging as JSON lines or for a terminal. Secrets are redacted in all lines."""

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from vcsync.patterns.linear import linear
from vcsync.process.legible import legible, legible_lines

_SECRET_KEY = re.compile(
    r"token|password|secret|authorization|kubeconfig|credential|client_?key|private", re.IGNORECASE
)
# Keys with these endings hold names and numbers, not the secrets themselves, so their values may be logged.
_HARMLESS_KEY = re.compile(r"(_name|_names|_ref|_file|_uid|_count|_seconds|_type)$", re.IGNORECASE)
_SECRET_TEXT = linear(
    r"(Bearer[^!-~]+)[A-Za-z0-9._~+/=-]{8,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)-----END [A-Z ]*PRIVATE KEY-----"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)"
)
_REDACTED = "[redacted]"
_encoder = msgspec.json.Encoder(enc_hook=str)


def _coloured() -> bool:
    """Return whether to write colours: only to a terminal, and never with NO_COLOR (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def configure(level: str = "info", format_: Literal["json", "console"] = "json") -> None:
    """Configure logging of the process.

    Args:
        level: One of debug, info, warning and error.
        format_: `json` for one object in each line on stderr, `console` for a terminal.

    Raises:
        ValueError: The level is unknown.
    """
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise ValueError(f"log level {level!r}: must be debug, info, warning or error")
    # A traceback becomes text, which may quote a secret, before redaction.
    renderer: list[Processor] = [structlog.processors.format_exc_info, redact, _json]
    if format_ == "console":
        renderer = [
            structlog.processors.format_exc_info,
            redact,
            _legible,
            structlog.dev.ConsoleRenderer(colors=_coloured()),
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(levels[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Redact values whose keys suggest secrets, and texts that look like secrets. A structlog processor."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if _SECRET_KEY.search(key) and not _HARMLESS_KEY.search(key):
        return _REDACTED
    return _clean_value(value)


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_TEXT.sub(lambda match: (match[1] or "") + _REDACTED, value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return {str(key): _clean(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(each) for each in value]
    return value


def _json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return legible_lines(_encoder.encode(event).decode())


def _legible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters of values. Tracebacks have lines."""
    return {
        key: (legible_lines if key == "exception" else legible)(value) if isinstance(value, str) else value
        for key, value in event.items()
    }
