"""Decides which work takes too long for the event loop, and runs such work on threads.

Whole writes can also run in the offload process; see `apiserver.offload`.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import msgspec

from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively, evaluate_in_thread
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.request.scope import Scope
from vcsync.process.loop_turns import turn

THREAD_BYTES = 64 * 1024
"""Size of a body from which on its steps run on a thread: they take about a millisecond per kilobyte."""
YIELD_BYTES = 8 * 1024
"""Size of a body, or of the stored object, from which on a write yields to other tasks between its steps."""
UNCOUNTED_BYTES = 4 * 1024
"""Size of a body up to which its fields are not counted: it is always cheap enough for the event loop."""
OFFLOAD_BYTES = 256 * 1024
"""Size of a body from which on it is expensive even if it is a single string."""
OFFLOAD_FIELDS = 1500
"""Number of fields and elements from which on a body is expensive: each takes about ten microseconds until it is stored."""
OFFLOAD_YAML_FIELDS = 120
"""Number of fields and elements from which on a YAML or protobuf response is expensive: each takes about five microseconds."""
COPY_OPERATION = b'"copy"'
"""Operation of JSON patches that makes large objects of small bodies."""

REMEMBERED_SECONDS = 60.0
"""Time for which similar writes are assumed to be slow too."""
MAX_REMEMBERED = 4096
"""Kinds of slow writes that are remembered."""

T = TypeVar("T")
_skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Checks JSON without a value for each field: that takes a hundredth of the time."""


class SlowWrites:
    """Remembers which kinds of writes recently took too long on the event loop, with the size of their smallest body.

    Args:
        now: Returns monotonic seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[Hashable, tuple[int, float]] = {}

    def add(self, write: Hashable, size: int) -> None:
        """Remember that a kind of write with a body of `size` bytes took too long."""
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[write] = (size, self._now() + REMEMBERED_SECONDS)

    def includes(self, write: Hashable, size: int) -> bool:
        """Return whether a kind of write with a body of `size` bytes will probably take too long."""
        smallest, until = self._known.get(write, (0, 0.0))
        return until > self._now() and size >= smallest


def is_expensive(data: bytes, content_type: str = "") -> bool:
    """Return whether a write takes too long for the event loop, judged by the size and the commas of its body.

    Args:
        data: The body in JSON, YAML or Kubernetes' protobuf.
        content_type: Value of the Content-Type header. Empty: JSON.
    """
    size = len(data)
    if "yaml" in content_type and not ("apply-patch" in content_type and _is_json(data)):
        return True  # YAML takes ten times as long as JSON, and anchors multiply that. kubectl applies JSON.
    if "json-patch" in content_type and COPY_OPERATION in data:
        return True
    if size <= UNCOUNTED_BYTES:
        return False
    if size > OFFLOAD_BYTES or "protobuf" in content_type:
        return size > THREAD_BYTES
    return data.count(b",") + data.count(b":") > OFFLOAD_FIELDS


def _is_json(data: bytes) -> bool:
    try:
        return data.startswith(b"{") and bool(_skip(data))
    except (msgspec.DecodeError, RecursionError):
        return False


def is_expensive_to_encode(data: Sequence[bytes], representation: Representation) -> bool:
    """Return whether encoding a response takes too long for the event loop.

    Args:
        data: Pieces of the response in JSON.
        representation: What they are converted to.
    """
    size = sum(map(len, data))
    if representation.format != "json":
        fields = sum(each.count(b",") + each.count(b":") for each in data)
        return size > UNCOUNTED_BYTES or fields > OFFLOAD_YAML_FIELDS
    return representation.pretty and size > THREAD_BYTES


async def run_decoding(scope: Scope, body: bytes, content_type: str, decode: Callable[[], T]) -> T:
    """Decode the body of a request: on a thread if that takes long. All bodies of requests for objects pass through here.

    Args:
        scope: The request. Its size becomes that of the body.
        body: The body.
        content_type: Value of the Content-Type header.
        decode: Decodes the body. It touches only what belongs to this request.
    """
    scope.size = max(scope.size, len(body))
    if is_expensive(body, content_type):
        return await evaluate_in_thread(scope.tenant, decode)
    return await run_step(scope, decode)


def consider(scope: Scope, value: bytes) -> bool:
    """Let the steps of a write run on a thread if the stored object is large: a small body may change it.

    Returns:
        Whether it is large.
    """
    large = is_expensive(value)
    if large:
        scope.size = max(scope.size, THREAD_BYTES + 1)
    return large


async def run_step(scope: Scope, work: Callable[[], T]) -> T:
    """Run one step of a write: on a thread, one at a time per tenant, if the body is large.

    Args:
        scope: The write.
        work: The step. It touches only what belongs to this request.
    """
    if scope.size > THREAD_BYTES:
        return await evaluate_in_thread(scope.tenant, work)
    await _yield_if_large(scope)
    return work()


async def run_rules(scope: Scope, evaluate: Callable[[], T]) -> T:
    """Run rules that may contain CEL expressions: on a thread if the body is large or the expressions take long.

    See `cooperative.evaluate_cooperatively`.
    """
    if scope.size > THREAD_BYTES:
        return await evaluate_in_thread(scope.tenant, evaluate)
    await _yield_if_large(scope)
    return await evaluate_cooperatively(scope.tenant, evaluate)


async def _yield_if_large(scope: Scope) -> None:
    """Let other tasks run before a step of a write that has several steps of half a millisecond."""
    if scope.size > YIELD_BYTES or scope.stored_size > YIELD_BYTES:
        await turn()
