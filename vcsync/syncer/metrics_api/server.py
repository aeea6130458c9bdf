"""Serves the resource metrics API of one tenant, below its kubelet API."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from vcsync.kube.errors import KubeError
from vcsync.syncer.metrics_api import answers
from vcsync.syncer.metrics_api.answers import Answer, Unserved
from vcsync.syncer.metrics_api.front_proxy import FrontProxy
from vcsync.syncer.metrics_api.tenant_usage import TenantUsage, encoded

ANSWER_SECONDS = 10.0
JSON = "application/json"


class MetricsServer:
    """Answers requests about one tenant's usage.

    Args:
        usage: Its usage.
        now: Returns the time in RFC 3339 form.

    Attributes:
        front_proxy: Recognizes requests that its kube-apiserver forwards.
    """

    def __init__(self, usage: TenantUsage, now: Callable[[], str]) -> None:
        self._usage = usage
        self._now = now
        self._turn = asyncio.Lock()
        self.front_proxy = FrontProxy()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer a request of the API."""
        try:
            return _response(await self._answer(request))
        except Unserved as refused:
            return _response(refused.answer)
        except (KubeError, TimeoutError):
            return _response(answers.unavailable())

    async def report(self) -> web.Response:
        """Tell the syncer of another super cluster what this one knows."""
        return web.Response(body=encoded(await self._usage.here()), content_type=JSON)

    async def _answer(self, request: web.BaseRequest) -> Answer:
        tls = request.get_extra_info("ssl_object")
        if tls is None or not self.front_proxy.issued(tls.getpeercert(binary_form=True)):
            return answers.forbidden()
        asked = answers.parse(request.method, request.rel_url.raw_path, dict(request.rel_url.query))
        if not asked.plural:
            return answers.answer(asked, (), (), "")
        async with asyncio.timeout(ANSWER_SECONDS), self._turn:
            pods, nodes = await self._usage.everywhere()
            # A list of thousands of Pods takes tens of milliseconds.
            return await asyncio.to_thread(answers.answer, asked, pods, nodes, self._now())


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, content_type=JSON)
