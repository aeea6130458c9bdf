"""The network between roles and API servers: requests that may wait, be executed late, or lose their answer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from vcsync.kube.errors import KubeError, NotFound, Status, Unreachable
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, ListPage
from vcsync.objects.selectors import parse_selector

from .api_server import ApiServer, envelope

AT_ONCE = 1_000_000
"""Number of requests that is never reached."""


class ModelLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the model's. `settle` runs what is ready, and returns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(selectors.SelectSelector())
        self._model_clock = clock

    def time(self) -> float:
        return self._model_clock()

    def settle(self) -> None:
        """Run until nothing is ready."""
        for _ in range(10_000):
            self.call_soon(self.stop)
            self.run_forever()
            if not self._ready:
                return
        raise AssertionError("the tasks never wait")


class Request:
    """A request on its way. It is executed at most once, and answered at most once, in any order of both with others."""

    def __init__(self, what: str, who: str, since: float, act: Callable[[], Any], endpoint: str) -> None:
        self.what = what
        self.who = who
        self.since = since
        self.executed = False
        self.answer: asyncio.Future[Any] | None = None
        self._act = act
        self._endpoint = endpoint
        self._outcome: tuple[Any, KubeError | None] = (None, None)

    @property
    def writes(self) -> bool:
        return not self.what.startswith(("get", "list"))

    def execute(self) -> None:
        if not self.executed:
            self.executed = True
            try:
                self._outcome = self._act(), None
            except KubeError as error:
                self._outcome = None, error

    def result(self) -> Any:
        self.execute()
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def reply(self) -> None:
        """Execute the request unless that was done, and give the caller the answer."""
        self.execute()
        value, error = self._outcome
        if self.answer is not None and not self.answer.done():
            if error is not None:
                self.answer.set_exception(error)
            else:
                self.answer.set_result(value)

    def lose(self) -> None:
        """Tell the caller that there is no answer. The request may be executed afterwards."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(Unreachable("the connection was reset", endpoint=self._endpoint))


class Wire:
    """All requests on their way. The next `passes` requests are executed and answered at once, further ones wait.

    Attributes:
        waiting: requests whose callers wait.
        late: requests whose callers wait no more, and that may still be executed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.passes = AT_ONCE
        self.waiting: list[Request] = []
        self.late: list[Request] = []

    async def send(self, what: str, who: str, act: Callable[[], Any], endpoint: str) -> Any:
        request = Request(what, who, self.clock(), act, endpoint)
        if self.passes > 0:
            self.passes -= 1
            return request.result()
        request.answer = asyncio.get_running_loop().create_future()
        self.waiting.append(request)
        try:
            return await request.answer
        finally:
            self.waiting.remove(request)
            if request.writes and not request.executed:
                self.late.append(request)

    def forget(self, before: float) -> None:
        """Drop requests without a caller that are older: no API server executes them any more."""
        self.late = [each for each in self.late if each.since >= before]


class Client:
    """A role's client of one API server."""

    def __init__(self, wire: Wire, server: ApiServer, who: str, *, bound_status: bool = False) -> None:
        self.name = server.name
        self.server = server
        self._wire = wire
        self._who = who
        self._bound_status = bound_status

    def _send(self, what: str, act: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return self._wire.send(f"{what} in {self.name}", self._who, act, self.name)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        return await self._send(
            f"get {resource.plural} {name}", lambda: self.server.get(resource, name, namespace)
        )

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", **_: object
    ) -> list[Envelope]:
        return await self._send(
            f"list {resource.plural}", lambda: self._listed(resource, namespace, label_selector)
        )

    async def pages(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", **_: object
    ) -> AsyncIterator[ListPage]:
        yield ListPage(
            await self.list(resource, namespace, label_selector=label_selector),
            str(self.server.version),
            "",
            None,
        )

    def _listed(self, resource: Resource, namespace: str, label_selector: str) -> list[Envelope]:
        selector = parse_selector(label_selector)
        return [
            envelope(body)
            for body in self.server.every(resource)
            if namespace in ("", body["metadata"].get("namespace", ""))
            and selector.matches(body["metadata"].get("labels") or {})
        ]

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> Envelope:
        return await self._send(
            f"create {resource.plural} {body['metadata']['name']}",
            lambda: self.server.create(resource, body, namespace, self._who),
        )

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], namespace: str = "", **options: Any
    ) -> Envelope:
        subresource = options.get("subresource", "")
        if subresource == "boundstatus" and not self._bound_status:
            raise NotFound(
                Status(404, "NotFound", "the server could not find the requested resource"),
                endpoint=self.name,
            )
        options = {key: value for key, value in options.items() if key in ("kind", "subresource")}
        return await self._send(
            f"patch {resource.plural} {name} {subresource}",
            lambda: self.server.patch(resource, name, patch, namespace, who=self._who, **options),
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Envelope | None:
        return await self._send(
            f"delete {resource.plural} {name}",
            lambda: self.server.delete(resource, name, namespace, who=self._who, **options),
        )

    async def create_raw(
        self, resource: Resource, body: dict[str, Any], namespace: str = "", *, name: str, subresource: str
    ) -> bytes:
        act = {"binding": self.server.bind, "eviction": self.server.evict}[subresource]

        def answer() -> bytes:
            act(body, namespace, name, self._who)
            return b"{}"

        return await self._send(f"{subresource} of {resource.plural} {name}", answer)
