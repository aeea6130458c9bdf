"""What lies below an object: status, scale, binding, eviction and their like."""

from vcsync.controlplane import errors
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.verbs import Request, Verbs


class Subresources:
    """Answers requests for subresources."""

    def __init__(self, verbs: Verbs) -> None:
        """Take the verbs of whole objects."""
        self._verbs = verbs

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer one."""
        verb, name = request.info.verb, request.info.subresource
        if name == "status":
            if verb == "get":
                return await self._verbs.get(request)
            if verb == "update":
                return await self._verbs.update(request)
            return await self._verbs.patch(request)
        raise errors.page_not_found()
