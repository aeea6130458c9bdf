"""Plays the program in the Pods of the chart `operator`: makes the Pods of each Cache, with the Pod's own token."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from typing import Any

from hollow_kubelet import SERVICE_ACCOUNT, environment, files
from pool_kit import Json, Space, container, is_running, super_of

GROUP = "operators.example.com"
OWNER = f"{GROUP}/cache"
_LOOK_SECONDS = 0.2


class Api:
    """A tenant's API as a container sees it: the files and environment that its kubelet gives it, and nothing else."""

    def __init__(self, mounted: dict[str, bytes], variables: dict[str, str]) -> None:
        self.namespace = mounted[f"{SERVICE_ACCOUNT}/namespace"].decode()
        self._server = (
            f"https://{variables['KUBERNETES_SERVICE_HOST']}:{variables['KUBERNETES_SERVICE_PORT']}"
        )
        self._token = mounted[f"{SERVICE_ACCOUNT}/token"].decode()
        self._context = ssl.create_default_context(cadata=mounted[f"{SERVICE_ACCOUNT}/ca.crt"].decode())

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request; return the status code and the decoded answer.

        Raises:
            OSError: the API server cannot be reached.
        """
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._server + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": patch},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


class _Ended(Exception):
    """The Pod whose token was used is gone."""


class Operator:
    """Runs the operator in a thread, as long as a Pod of it runs in a super cluster.

    Args:
        space: the namespace of the release.
        labels: a label selector of the operator's Pods.
    """

    def __init__(self, space: Space, labels: str) -> None:
        self._space = space
        self._query = f"labelSelector={labels}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._pod = ""
        self.api: Api | None = None
        self.refusals: list[tuple[int, Any]] = []
        """Answers to requests of a running Pod that were neither a success, nor 404, nor a conflict."""

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            try:
                if api := self._started():
                    _Caches(self._answers(api), api.namespace).reconcile()
            except (OSError, AssertionError, KeyError, _Ended):
                self._pod = ""  # its Pod, or what it reads, is changing: it starts again

    def _started(self) -> Api | None:
        """Return the API as a running Pod of the operator sees it; None if none runs."""
        running = [each for each in self._space.all("pods", self._query) if is_running(each)]
        if not running:
            self.api, self._pod = None, ""
        elif self._pod not in {each["metadata"]["uid"] for each in running}:
            super_id, name = super_of(running[0]), running[0]["metadata"]["name"]
            below = self._space.there(super_id, "pods", name)
            assert below is not None
            cluster = self._space.pool.supers[super_id]
            self.api = Api(files(cluster, below), environment(cluster, below))
            self._pod = running[0]["metadata"]["uid"]
        return self.api

    def _answers(self, api: Api) -> Any:
        def call(method: str, path: str, body: object = None) -> Any:
            code, answer = api.call(method, path, body)
            if code == 401:
                raise _Ended  # a token ends with its Pod
            if code not in (200, 201, 202, 404, 409):
                self.refusals.append((code, answer))
            return answer if code in (200, 201, 202) else {}

        return call


class _Caches:
    """Brings the Pods of each Cache to its spec: missing ones first, then outdated ones, one at a time."""

    def __init__(self, call: Any, namespace: str) -> None:
        self._call = call
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._caches = f"/apis/{GROUP}/v1/namespaces/{namespace}/caches"

    def reconcile(self) -> None:
        for cache in self._call("GET", self._caches).get("items", ()):
            if "deletionTimestamp" not in cache["metadata"]:
                self._reconcile(cache)

    def _reconcile(self, cache: Json) -> None:
        name, spec = cache["metadata"]["name"], cache["spec"]
        selector = f"{OWNER}%3D{name}"
        found = self._call("GET", f"{self._pods}?labelSelector={selector}")["items"]
        names = {each["metadata"]["name"] for each in found}
        for number in range(spec["size"]):
            if f"{name}-{number}" not in names:
                self._call("POST", self._pods, _member(cache, number))
                return
        ready = [each for each in found if is_running(each) and "deletionTimestamp" not in each["metadata"]]
        outdated = [each for each in ready if each["spec"]["containers"][0]["image"] != spec["image"]]
        complete = len(ready) == spec["size"]
        if complete and outdated:
            self._call("DELETE", f"{self._pods}/{outdated[0]['metadata']['name']}")
        self._report(cache, ready=complete and not outdated, count=len(ready) - len(outdated))

    def _report(self, cache: Json, *, ready: bool, count: int) -> None:
        condition = {
            "type": "Ready",
            "status": str(ready),
            "reason": "Members",
            "message": f"{count} are current",
        }
        status = {"observedGeneration": cache["metadata"]["generation"], "conditions": [condition]}
        if cache.get("status") != status:
            self._call("PATCH", f"{self._caches}/{cache['metadata']['name']}/status", {"status": status})


def _member(cache: Json, number: int) -> Json:
    metadata = cache["metadata"]
    owner = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Cache",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-{number}",
            "labels": {OWNER: metadata["name"]},
            "ownerReferences": [owner],
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{**container(), "image": cache["spec"]["image"]}],
        },
    }
