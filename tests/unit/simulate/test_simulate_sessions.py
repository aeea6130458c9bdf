"""Exec in simulated containers, and a container's runs."""

import asyncio
from typing import Any

import msgspec
import pytest

from vcsync.objects.envelope import encode, parse
from vcsync.simulate.container_runs import Refused, container_run, log_options, running
from vcsync.simulate.sessions import ERROR, STDERR, STDOUT, execute, status

BEGAN, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


class Typed:
    """A client that sends some input, and the output that it receives."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.shown: dict[int, bytes] = {}

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, channel: int, data: bytes) -> None:
        self.shown[channel] = self.shown.get(channel, b"") + data


def run(
    *command: str, typed: tuple[bytes, ...] = (), stdin: bool = False, tty: bool = False
) -> dict[Any, Any]:
    client = Typed(*typed)
    asyncio.run(execute(client, command, "p", stdin=stdin, tty=tty))
    ended = msgspec.json.decode(client.shown.pop(ERROR))
    causes = (ended.get("details") or {}).get("causes") or [{"message": "0"}]
    return {**client.shown, "code": int(causes[0]["message"])}


def test_a_command_is_answered_on_its_streams() -> None:
    found = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert found == {STDOUT: b"out\n", STDERR: b"err\n", "code": 3}


def test_a_terminal_has_one_stream_and_crlf_line_ends() -> None:
    assert run("sh", "-c", "echo a; echo b >&2", tty=True) == {STDOUT: b"a\r\nb\r\n", "code": 0}


@pytest.mark.parametrize(
    ("typed", "tty", "shown", "code"),
    [
        ((b"one\ntw", b"o\n"), False, b"one\ntwo\n", 0),
        ((b"ls\nex", b"it 4\nnever"), False, b"ls\nexit 4\nnever", 4),
        ((b"a\rexit 2\r",), True, b"a\r\nexit 2\r\n", 2),
    ],
)
def test_a_shell_echoes_input_until_it_exits(
    typed: tuple[bytes, ...], tty: bool, shown: bytes, code: int
) -> None:
    assert run("sh", typed=typed, stdin=True, tty=tty) == {STDOUT: shown, "code": code}


def test_a_command_that_does_not_read_ends_by_itself() -> None:
    assert run("echo", "hi", typed=(b"never read",), stdin=True) == {STDOUT: b"hi\n", "code": 0}
    assert run("cat", typed=(b"not asked for",)) == {"code": 0}


def test_exit_codes_are_reported_as_by_kubelets() -> None:
    assert status(0) == {"metadata": {}, "status": "Success"}
    failed = status(7)
    assert (failed["status"], failed["reason"]) == ("Failure", "NonZeroExitCode")
    assert failed["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


# ---- Containers --------------------------------------------------------------------------


def pod(state: Any = None, last: Any = None) -> Any:
    container_status = {"name": "c", "state": state or {}, "lastState": last or {}}
    body = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "command": ["echo"], "args": ["hi"]}]},
        "status": {"containerStatuses": [container_status]},
    }
    return parse(encode(body))


def test_a_containers_runs_come_from_its_status() -> None:
    ended = {"terminated": {"startedAt": BEGAN, "finishedAt": ENDED}}
    both = pod({"running": {"startedAt": ENDED}}, ended)
    now, before = container_run(both, "c", previous=False), container_run(both, "c", previous=True)
    assert now.until is None
    assert (before.until, now.command) == (now.began, ("echo", "hi"))
    assert running(both, "c") == now


def test_exec_works_in_an_ephemeral_container() -> None:
    container_status = {"name": "d", "state": {"running": {"startedAt": BEGAN}}}
    body = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "d", "command": ["echo"]}]},
        "status": {"ephemeralContainerStatuses": [container_status]},
    }
    assert running(parse(encode(body)), "d").command == ("echo",)


@pytest.mark.parametrize(
    ("container", "previous", "code", "message"),
    [
        ("x", False, 404, 'container "x" not found in pod "p"'),
        ("c", False, 400, 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        ("c", True, 400, 'previous terminated container "c" in pod "p" not found'),
    ],
)
def test_missing_containers_have_the_kubelets_messages(
    container: str, previous: bool, code: int, message: str
) -> None:
    with pytest.raises(Refused, match=message) as caught:
        container_run(pod(), container, previous=previous)
    assert caught.value.status == code


def test_exec_needs_a_running_container() -> None:
    with pytest.raises(Refused) as caught:
        running(pod({"terminated": {"startedAt": BEGAN, "finishedAt": ENDED}}), "c")
    assert (caught.value.status, str(caught.value)) == (500, 'container not found ("c")')


def test_an_invalid_query_is_refused() -> None:
    now = container_run(pod({"running": {"startedAt": BEGAN}}), "c", previous=False).began
    assert log_options({"tailLines": "3", "sinceSeconds": "60"}.get, now).tail == 3
    for wrong in ({"tailLines": "x"}, {"sinceTime": "noon"}, {"sinceSeconds": "9" * 30}):
        with pytest.raises(Refused):
            log_options(wrong.get, now)
