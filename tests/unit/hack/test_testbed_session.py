"""The test bed's own connection to a server outlives failures."""

import datetime
import http.client
from types import SimpleNamespace
from typing import Any

import pytest

from hack.testbed import cluster
from hack.testbed.pki import Authority


class Connection(http.client.HTTPConnection):
    """A connection on which the answer to the first request never comes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__("127.0.0.1")
        self.opened = 0
        self.connect()

    def connect(self) -> None:
        self.opened += 1
        self.sock: Any = SimpleNamespace(sendall=lambda _: None, close=lambda: None)

    def getresponse(self) -> Any:
        if self.opened == 1:
            raise TimeoutError
        answer = SimpleNamespace(status=200, read=lambda: b"ok", headers=http.client.HTTPMessage())
        self.close()
        return answer


def test_after_a_failure_the_next_call_opens_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
    ca = Authority("ca", datetime.datetime.now(datetime.UTC)).pair.certificate
    plan = SimpleNamespace(port=1, path="")
    server: Any = SimpleNamespace(ca_pem=ca, admin_token="t", plan=plan)
    with cluster.Session(server, 1.0) as session:
        with pytest.raises(TimeoutError):
            session.call("GET", "/readyz")
        assert session.call("GET", "/readyz") == (200, "ok")
