"""Reads the published CustomResourceDefinitions that tenants get from the meta cluster, where syncers keep them."""

import asyncio
from collections import OrderedDict
from typing import Any, Final

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.published.definitions import Chosen, NotPublished, restored, stored_name

_MOST: Final = 4
"""Most definitions that are remembered. Tenants get them one after another, so that the same ones are asked for."""

_log = structlog.get_logger(__name__)


class DefinitionTexts:
    """The published definitions. Those that were read last are remembered.

    Args:
        meta: client of the meta cluster.
    """

    def __init__(self, meta: Client) -> None:
        self._meta = meta
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._reported: set[Chosen] = set()

    async def get(self, wanted: Chosen) -> dict[str, Any] | None:
        """Return a definition; None if it cannot be read, which is reported once in the log.

        Raises:
            KubeError: the meta cluster did not answer.
        """
        body = self._known.get(wanted.digest)
        if body is None:
            name = stored_name(wanted.super_id, wanted.name)
            try:
                found = await self._meta.get(CONFIG_MAPS, name, names.DEFINITIONS_NAMESPACE)
                body = await asyncio.to_thread(restored, found, wanted)
            except (Forbidden, NotFound, NotPublished) as error:
                if wanted not in self._reported:
                    self._reported = {*list(self._reported)[-100:], wanted}
                    _log.warning(
                        "definition cannot be read",
                        name=wanted.name,
                        super_cluster=wanted.super_id,
                        error=str(error),
                    )
                return None
            self._known[wanted.digest] = body
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(wanted.digest)
        return body
