"""OpenAPI documents of one tenant are built one at a time, on threads of their own, and only once."""

import asyncio
import threading

import pytest
from served_definitions import until

from vcsync.apiserver.openapi import documents

V2, V3 = "/openapi/v2", "/openapi/v3/apis/example.org/v1"


@pytest.mark.parametrize(("path", "maker"), [(V2, "_swagger"), (V3, "_document")])
async def test_one_tenant_has_one_document_built_at_a_time(api, gadgets, monkeypatch, path, maker):
    free, building, most, made = threading.Event(), [], [], []
    plain = getattr(documents, maker)

    def slow(custom, *rest):
        building.append(1)
        most.append(len(building))
        if len(made) == 0:
            free.wait(20)
        made.append(len(custom))
        building.pop()
        return plain(custom, *rest)

    monkeypatch.setattr(documents, "_kept", documents.KeptDocuments())
    monkeypatch.setattr(documents, maker, slow)
    waiting = [asyncio.ensure_future(api("GET", path)) for _ in range(8)]
    await until(lambda: asyncio.sleep(0, bool(building)))
    # Answers of others are compressed by the threads that all share.
    await asyncio.gather(*(asyncio.to_thread(int) for _ in range(8)))
    assert (await api("GET", "/openapi/v3/api/v1")).status == 200
    assert most == [1]
    free.set()
    answers = await asyncio.gather(*waiting)
    assert {each.status for each in answers} == {200}
    assert len(made) == 1
    assert (await api("GET", path)).status == 200
    assert len(made) == 1
