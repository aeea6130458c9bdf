"""Errors within WebSockets: what tells of the super cluster is replaced, everything else passes unchanged."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.streams.error_frames import MAX_ERROR_BYTES, ErrorFrames, MalformedFrame

SECRET = "vcsync-abcdef-acme-shop"
INSTEAD = "super cluster r1 did not serve the request"
FIN, TEXT, BINARY, CONTINUATION, PING = 0x80, 0x1, 0x2, 0x0, 0x9


def frame(payload: bytes, first: int = FIN | BINARY) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes([first, size]) + payload
    if size < 65536:
        return bytes([first, 126]) + size.to_bytes(2, "big") + payload
    return bytes([first, 127]) + size.to_bytes(8, "big") + payload


def status(message: str, **more: Any) -> bytes:
    return b"\x03" + msgspec.json.encode({"kind": "Status", "status": "Failure", "message": message, **more})


def passed(*pieces: bytes) -> bytes:
    frames = ErrorFrames(SECRET, INSTEAD)
    return b"".join(map(frames.feed, pieces))


TELLTALES = [
    "error dialing backend: dial tcp 10.0.0.5:10250: connect: connection refused",
    'error sending request: Post "https://worker-7:10250/exec/ns/p/c": EOF',
    "dial tcp: lookup worker-7: no such host",
    "no route to [fd00::1]:10250",
    f"the namespace {SECRET}",
]
HARMLESS = [
    'exec: "foo": executable file not found in $PATH: unknown',
    'container not found ("c")',
    "command terminated with exit code 7",
]


@pytest.mark.parametrize("message", TELLTALES)
def test_errors_about_the_super_cluster_are_replaced(message: str) -> None:
    out = passed(frame(b"\x01out"), frame(status(message, code=500, reason="InternalError")), frame(b"\x01x"))
    sent = msgspec.json.encode(
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "InternalError",
            "code": 500,
            "metadata": {},
            "message": INSTEAD,
        }
    )
    assert out == frame(b"\x01out") + frame(b"\x03" + sent) + frame(b"\x01x")


@pytest.mark.parametrize("message", HARMLESS)
def test_errors_about_the_command_pass(message: str) -> None:
    assert passed(frame(status(message))) == frame(status(message))


def test_the_exit_code_of_a_command_with_an_address_passes() -> None:
    cause = {"causes": [{"reason": "ExitCode", "message": "7"}]}
    failed = status(
        "error executing curl https://10.0.0.1, exit code 7", reason="NonZeroExitCode", details=cause
    )
    assert passed(frame(failed)) == frame(failed)


def test_an_error_that_is_no_status_is_replaced_whole() -> None:
    assert passed(frame(b"\x03dial tcp 10.0.0.5")) == frame(b"\x03" + INSTEAD.encode())


def test_output_is_never_changed() -> None:
    said = b"\x01" + TELLTALES[0].encode()
    assert passed(frame(said)) == frame(said)


def test_a_fragmented_error_is_replaced() -> None:
    whole = status(TELLTALES[0])
    parts = [
        frame(whole[:9], BINARY),
        frame(b"", FIN | PING),
        frame(whole[9:30], CONTINUATION),
        frame(whole[30:], FIN | CONTINUATION),
    ]
    out = passed(*parts)
    assert out.startswith(frame(b"", FIN | PING))
    assert b"10.0.0.5" not in out
    assert INSTEAD.encode() in out


@given(st.data())
def test_pieces_of_any_size_have_the_same_result(data: st.DataObject) -> None:
    payloads = st.sampled_from([b"", b"\x01a", b"\x02" + b"b" * 200, b"\x01" + b"c" * 70_000])
    errors = st.sampled_from([status(each) for each in (*TELLTALES, *HARMLESS)])
    sent = b"".join(map(frame, data.draw(st.lists(payloads | errors, max_size=5))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert passed(*pieces) == passed(sent)


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"\x01a", FIN | BINARY | 0x40),
        bytes([FIN | BINARY, 0x80 | 1]) + b"mask" + b"a",
        bytes([FIN | BINARY, 126, 0, 0]) + b"\x03",
        frame(status("a"), BINARY) + frame(b"\x01b"),
        frame(b"\x03" + b"x" * MAX_ERROR_BYTES),
    ],
)
def test_other_bytes_end_the_stream(sent: bytes) -> None:
    with pytest.raises(MalformedFrame):
        passed(sent)


def as_text(channel: int, payload: bytes) -> bytes:
    return frame(str(channel).encode() + base64.b64encode(payload), FIN | TEXT)


@pytest.mark.parametrize("protocol", ["base64.channel.k8s.io", "v4.base64.channel.k8s.io"])
def test_errors_in_base64_are_replaced_too(protocol: str) -> None:
    """A client chooses the protocol, and must not learn more by another one."""
    frames = ErrorFrames(SECRET, INSTEAD, protocol)
    told = status(TELLTALES[0])[1:]
    assert frames.feed(as_text(3, told)) == as_text(
        3,
        msgspec.json.encode({"kind": "Status", "status": "Failure", "metadata": {}, "message": INSTEAD}),
    )
    harmless = status(HARMLESS[0])[1:]
    output = as_text(1, TELLTALES[0].encode())
    assert frames.feed(as_text(3, harmless) + output) == as_text(3, harmless) + output
    assert frames.feed(frame(b"3!!", FIN | TEXT)) == as_text(3, INSTEAD.encode()), "what cannot be read"


@pytest.mark.parametrize(
    ("protocol", "made"),
    [
        ("v4.channel.k8s.io", lambda channel, payload: frame(bytes([channel]) + payload)),
        ("", lambda channel, payload: frame(bytes([channel]) + payload)),
        ("v4.base64.channel.k8s.io", as_text),
    ],
)
def test_errors_of_forwarded_ports_are_replaced(protocol: str, made: Any) -> None:
    """Each port has a channel for data and one for errors, which begin with its number."""
    frames = ErrorFrames(SECRET, INSTEAD, protocol, ports=True)
    begins = b"".join(made(channel, b"\x50\x00") for channel in range(4))
    assert frames.feed(begins) == begins
    told = f"error forwarding port 80 to pod web_{SECRET}, uid : {TELLTALES[0]}".encode()
    for channel in (1, 3):
        assert frames.feed(made(channel, told)) == made(channel, INSTEAD.encode())
    data = made(0, told) + made(2, told)
    assert frames.feed(data) == data, "the data of the tenant's own program"
