"""Exec at a container that pretends, and what a kubelet knows of containers."""

import asyncio
from typing import Any

import msgspec
import pytest

from vcsync.kube.envelope import encode, parse
from vcsync.simulate.lives import Refused, asked_of, life_of, running
from vcsync.simulate.sessions import ERROR, STDERR, STDOUT, execute, status

BEGAN, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


class Typed:
    """A client that types some pieces, and what it is shown."""

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


def test_a_terminal_has_one_stream_and_its_own_ends_of_lines() -> None:
    assert run("sh", "-c", "echo a; echo b >&2", tty=True) == {STDOUT: b"a\r\nb\r\n", "code": 0}


@pytest.mark.parametrize(
    ("typed", "tty", "shown", "code"),
    [
        ((b"one\ntw", b"o\n"), False, b"one\ntwo\n", 0),
        ((b"ls\nex", b"it 4\nnever"), False, b"ls\nexit 4\nnever", 4),
        ((b"a\rexit 2\r",), True, b"a\r\nexit 2\r\n", 2),
    ],
)
def test_a_shell_sends_back_what_is_typed_until_it_is_to_end(
    typed: tuple[bytes, ...], tty: bool, shown: bytes, code: int
) -> None:
    assert run("sh", typed=typed, stdin=True, tty=tty) == {STDOUT: shown, "code": code}


def test_what_does_not_read_ends_by_itself() -> None:
    assert run("echo", "hi", typed=(b"never read",), stdin=True) == {STDOUT: b"hi\n", "code": 0}
    assert run("cat", typed=(b"not asked for",)) == {"code": 0}


def test_how_a_command_ended_is_told_as_kubelets_do() -> None:
    assert status(0) == {"metadata": {}, "status": "Success"}
    failed = status(7)
    assert (failed["status"], failed["reason"]) == ("Failure", "NonZeroExitCode")
    assert failed["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


# ---- Containers --------------------------------------------------------------------------


def pod(state: Any = None, last: Any = None) -> Any:
    told = {"name": "c", "state": state or {}, "lastState": last or {}}
    body = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "command": ["echo"], "args": ["hi"]}]},
        "status": {"containerStatuses": [told]},
    }
    return parse(encode(body))


def test_a_containers_runs_are_known_by_its_status() -> None:
    ended = {"terminated": {"startedAt": BEGAN, "finishedAt": ENDED}}
    both = pod({"running": {"startedAt": ENDED}}, ended)
    now, before = life_of(both, "c", previous=False), life_of(both, "c", previous=True)
    assert now.until is None
    assert (before.until, now.command) == (now.began, ("echo", "hi"))
    assert running(both, "c") == now


def test_an_ephemeral_container_can_be_entered() -> None:
    told = {"name": "d", "state": {"running": {"startedAt": BEGAN}}}
    body = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "d", "command": ["echo"]}]},
        "status": {"ephemeralContainerStatuses": [told]},
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
def test_what_there_is_not_is_refused_in_a_kubelets_words(
    container: str, previous: bool, code: int, message: str
) -> None:
    with pytest.raises(Refused, match=message) as caught:
        life_of(pod(), container, previous=previous)
    assert caught.value.status == code


def test_only_what_runs_can_be_entered() -> None:
    with pytest.raises(Refused) as caught:
        running(pod({"terminated": {"startedAt": BEGAN, "finishedAt": ENDED}}), "c")
    assert (caught.value.status, str(caught.value)) == (500, 'container not found ("c")')


def test_a_query_that_makes_no_sense_is_refused() -> None:
    now = life_of(pod({"running": {"startedAt": BEGAN}}), "c", previous=False).began
    assert asked_of({"tailLines": "3", "sinceSeconds": "60"}.get, now).tail == 3
    for wrong in ({"tailLines": "x"}, {"sinceTime": "noon"}, {"sinceSeconds": "9" * 30}):
        with pytest.raises(Refused):
            asked_of(wrong.get, now)
