"""The controllers of tenants tell the control plane whose work stalled their last process."""

from typing import Any

import pytest

from vcsync.cli.command import stalls
from vcsync.cli.controllers import commands
from vcsync.kube.errors import Unreachable
from vcsync.process import loop, stall_report
from vcsync.process.marks import Mark

REPORT = (
    'Current thread 0x01 (most recent call first):\n  File "/x/a.py", line 1 in work\n'
    f'  File "/x/m.py", line 2 in {Mark("deployment-controller", "acme").name}\n'
)


class Server:
    """Records requests; may not answer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self._error = error

    async def request(self, method: str, path: str, body: bytes) -> bytes:
        self.asked.append((method, path, body))
        if self._error is not None:
            raise self._error
        return b""


async def test_the_controllers_tell_whose_item_stalled_them() -> None:
    server: Any = Server()
    await commands._record(server, stall_report.suspects(REPORT))
    assert server.asked == [
        ("POST", "/vcsync/v1/tenants/acme/stalls", b'{"work":"deployment-controller","sure":true}')
    ]


async def test_a_control_plane_that_does_not_answer_does_not_stop_them() -> None:
    server: Any = Server(Unreachable("not now"))
    await commands._record(server, stall_report.suspects(REPORT))
    assert len(server.asked) == 1


def test_a_report_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [REPORT]
    monkeypatch.setattr(loop, "taken_report", lambda: reports.pop() if reports else "")
    found = stalls.last_stall()
    assert found is not None
    assert (found.tenants, found.sure) == ({"acme"}, True)
    assert stalls.last_stall() is None
