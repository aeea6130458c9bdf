"""Counts ready Pods at each change of a watch, to see whether an application stays available while Pods are replaced."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from urllib.parse import quote

from pool_kit import Json, Space, is_running, items, read

from tests.real.waiting import eventually


class Availability:
    """Counts the ready Pods of a selector in a tenant's namespace at each change that a watch reports.

    After the block, `least` is the smallest number of Pods that were ready, and not being deleted, at the same time.

    Args:
        space: the namespace.
        labels: of the Pods.
    """

    def __init__(self, space: Space, labels: Mapping[str, str]) -> None:
        self._cluster = space.tenant
        self._path = f"/api/v1/namespaces/{space.name}/pods?labelSelector={selector(labels)}"
        self._versions: dict[str, str] = {}
        self._ready: set[str] = set()
        self._error: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.least = 0

    def __enter__(self) -> Availability:
        listed = read(self._cluster, self._path) or {}
        for each in listed["items"]:
            self._see("ADDED", each)
        self.least = len(self._ready)
        self._connection = self._watch(listed["metadata"]["resourceVersion"])
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                eventually(self._is_current)
        finally:
            self._ended = True
            # A close would wait for the thread, which waits for the next event.
            self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._connection.close()

    def _watch(self, version: str) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self._cluster.ca_pem)
        connection = http.client.HTTPSConnection("127.0.0.1", self._cluster.plan.port, context=context)
        path = (
            f"{self._cluster.plan.path}{self._path}&watch=true&resourceVersion={version}&timeoutSeconds=3600"
        )
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._cluster.admin_token}"})
        return connection

    def _run(self) -> None:
        try:
            for line in self._answer:
                event = json.loads(line)
                self._see(event["type"], event["object"])
                self.least = min(self.least, len(self._ready))
            error: Exception = EOFError("the server ended the watch")
        except (OSError, http.client.HTTPException, ValueError, KeyError) as found:
            error = found
        if not self._ended:
            self._error = error

    def _see(self, kind: str, pod: Json) -> None:
        metadata = pod["metadata"]
        self._ready.discard(metadata["name"])
        if kind == "DELETED":
            self._versions.pop(metadata["name"], None)
            return
        self._versions[metadata["name"]] = metadata["resourceVersion"]
        if is_running(pod) and "deletionTimestamp" not in metadata:
            self._ready.add(metadata["name"])

    def _is_current(self) -> bool:
        assert self._error is None, repr(self._error)
        found = {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in items(self._cluster, self._path)
        }
        assert found == dict(self._versions), (found, self._versions)
        return True


def selector(labels: Mapping[str, str]) -> str:
    """Return a label selector for a query. A name without `/` is one of `app.kubernetes.io`."""
    pairs = {name if "/" in name else f"app.kubernetes.io/{name}": value for name, value in labels.items()}
    return quote(",".join(f"{name}={value}" for name, value in pairs.items()), safe="")
