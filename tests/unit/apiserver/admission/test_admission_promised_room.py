"""Admission with the pod scheduler's own book: after a storm of creations, the book equals what is stored."""

import asyncio
import random

import msgspec
import pytest
from asked_plane import Everybody, ask

from vcsync.api.names import SUPER_CLUSTER
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.pod_placement import PodPlacement
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.kube.cache import Cache
from vcsync.objects.envelope import parse
from vcsync.podscheduler.pods import slim
from vcsync.podscheduler.tenant import TenantPods
from vcsync.scheduling.pods import pod_needs
from vcsync.scheduling.snapshot import Health, SuperView

PODS = "/api/v1/namespaces/shop/pods"
SUPERS = ("r1", "r2")
ROOM = 1000


class Book:
    """The pod scheduler's book of one tenant, as a port of admission. It sees Pods when `see` is called."""

    def __init__(self):
        views = {each: SuperView(each, Health.READY, {}) for each in SUPERS}
        nothing = lambda *_: None  # noqa: E731 - no Pod is scheduled here
        self.pods = TenantPods(None, lambda: views, nothing, nothing)
        self.pods.grant("shop", {"cpu": ROOM}, dict.fromkeys(SUPERS, 1))
        self.pods.begin()
        self._cache = Cache()

    async def promise(self, tenant, control_plane, namespace, name, spec, labels):
        return self.pods.promise(namespace, name, pod_needs(spec, name), labels)

    def see(self, items):
        for item in items:
            change = self._cache.observe(slim(parse(msgspec.json.encode(item))))
            if change is not None:
                self.pods.observe(change)

    def used(self):
        return {each: self.pods.accounting.share("shop", each).used.get("cpu", 0) for each in SUPERS}


@pytest.mark.parametrize("seed", range(3))
async def test_the_book_equals_what_stands_after_a_storm_of_creations(tmp_path, seed):
    chance, book = random.Random(seed), Book()

    async def validate(admission):
        await asyncio.sleep(chance.random() / 200)
        if chance.random() < 0.3:
            raise StatusError(403, "Forbidden", "a webhook denied the request")

    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    placement = PodPlacement(book, Lookup(store))
    chain = assemble(store, Everybody(), admit=(placement,), validate=(validate,)).server.chain
    for name in ("kube-system", "shop"):
        while (await ask(chain, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})).status != 201:
            continue

    async def create(number):
        await asyncio.sleep(chance.random() / 20)
        resources = {"requests": {"cpu": f"{chance.choice([50, 100, 150])}m"}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        # Some names collide, and some clients go while they wait.
        body = {"metadata": {"name": f"p{number % 40}"}, "spec": spec}
        try:
            async with asyncio.timeout(0.002 if chance.random() < 0.2 else None):
                await ask(chain, "POST", PODS, body)
        except TimeoutError:
            return

    async def look():
        while True:
            await asyncio.sleep(0.005)
            book.see((await ask(chain, "GET", PODS))["items"])
            assert all(each <= ROOM for each in book.used().values())

    looking = asyncio.create_task(look())
    await asyncio.gather(*map(create, range(60)))
    async with asyncio.timeout(20):
        while len(book.pods.promises):  # writes whose clients have gone, and Pods that are not seen yet
            await asyncio.sleep(0.005)
            assert not looking.done(), looking.exception()
    looking.cancel()
    await asyncio.wait((looking,))
    assert looking.cancelled(), looking.exception()
    items = (await ask(chain, "GET", PODS))["items"]
    book.see(items)
    standing = dict.fromkeys(SUPERS, 0)
    for item in items:
        found = item["metadata"].get("labels", {}).get(SUPER_CLUSTER)
        if found:
            amount = item["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            standing[found] += int(amount.removesuffix("m"))
    assert (book.used(), len(book.pods.promises)) == (standing, 0)
    assert any(standing.values())
    await store.close()
