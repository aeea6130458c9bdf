"""Pods are placed while they are created, and what was promised for one that is not created is given back."""

import asyncio

import pytest
from asked_plane import Everybody, ask

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import pod_placement
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.pod_placement import PodPlacement
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.request.claims import NOTHING
from vcsync.apiserver.storage.interface import Outcome, StoreFull, StoreUnavailable
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.objects.generated_names import is_generated

PODS = "/api/v1/namespaces/shop/pods"


class Promise:
    """A promise that notes what it is told."""

    def __init__(self, super_id, *, holds=True):
        self.super_id = super_id
        self.holds = holds
        self.told = []

    def writing(self, uid):
        self.told.append("writing")
        return self.holds

    def written(self, revision):
        assert revision
        self.told.append("written")

    def give_back(self):
        if self.told[-1:] != ["given back"]:
            self.told.append("given back")


class Scheduler:
    """Answers with `super_id`, and notes what it was asked."""

    def __init__(self):
        self.super_id, self.holds, self.silent, self.error = "r1", True, False, None
        self.asked, self.promises = [], []

    async def promise(self, tenant, control_plane, namespace, name, spec, labels):
        self.asked.append((tenant, control_plane, namespace, name))
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        if self.super_id is None:
            return None
        self.promises.append(Promise(self.super_id, holds=self.holds))
        return self.promises[-1]

    @property
    def told(self):
        [promise] = self.promises
        return promise.told


class Store:
    """A store whose transactions fail or wait on demand."""

    def __init__(self, store):
        self._store = store
        self.error = None
        self.conflicts = 0
        self.gate = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def txn(self, compares, operations):
        if not any("/pods/" in each.key for each in operations):
            return await self._store.txn(compares, operations)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self.conflicts:
            self.conflicts -= 1
            return Outcome(1, (("quota", None),))
        return await self._store.txn(compares, operations)


class Quota:
    """Charges that refuse on demand."""

    def __init__(self):
        self.refuses = False

    async def __call__(self, scope, new, old, *, dry_run=False):
        if self.refuses:
            raise StatusError(403, "Forbidden", "exceeded quota")
        return NOTHING

    def turn(self, scope):
        return NoTurn()


class NoTurn:
    async def __aenter__(self):
        return None

    async def __aexit__(self, *_):
        return None


class Plane:
    """A client of a control plane whose scheduler, store, quota and validation are the test's."""

    def __init__(self, store):
        self.store, self.scheduler, self.quota = Store(store), Scheduler(), Quota()
        self.refuses = False
        self.chain = assemble(
            self.store,
            Everybody(),
            admit=(PodPlacement(self.scheduler, Lookup(self.store)),),
            validate=(self.validate,),
            charges=self.quota,
        ).server.chain

    async def validate(self, admission):
        if self.refuses:
            raise StatusError(403, "Forbidden", "a webhook denied the request")

    async def create(self, query="", *, labels=None, annotations=None, finalizers=None, generate="", **spec):
        metadata = {"labels": labels or {}, "annotations": annotations or {}}
        metadata |= {"finalizers": finalizers} if finalizers else {}
        metadata |= {"generateName": generate} if generate else {"name": "web"}
        body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        return await ask(self.chain, "POST", PODS + query, body)

    async def stored(self):
        return (await ask(self.chain, "GET", f"{PODS}/web"))["metadata"]


@pytest.fixture
async def plane(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    made = Plane(opened)
    for name in ("kube-system", "shop"):
        await ask(made.chain, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield made
    await opened.close()


def marks(metadata):
    return [metadata.get(part, {}).get(SUPER_CLUSTER) for part in ("labels", "annotations")]


async def test_the_answer_of_a_creation_has_the_super_cluster(plane):
    made = await plane.create()
    assert made.status == 201
    assert marks(made.body["metadata"]) == marks(await plane.stored()) == ["r1", "r1"]
    assert plane.scheduler.told == ["writing", "written"]
    identity = await ask(plane.chain, "GET", "/api/v1/namespaces/kube-system")
    assert plane.scheduler.asked == [("a", identity["metadata.uid"], "shop", "web")]


async def test_other_labels_and_annotations_stay(plane):
    made = await plane.create(labels={"app": "web"}, annotations={"note": "mine"})
    assert made["metadata"]["labels"] == {"app": "web", SUPER_CLUSTER: "r1"}
    assert made["metadata"]["annotations"] == {"note": "mine", SUPER_CLUSTER: "r1"}


async def test_a_pod_of_a_fixed_name_keeps_it_from_its_creation_on(plane):
    made = await plane.create(finalizers=["example.com/held"])
    assert made["metadata"]["finalizers"] == ["example.com/held", COPY_FINALIZER]
    generated = (await plane.create(generate="web-"))["metadata"]
    assert ("finalizers" in generated) is not is_generated(generated["name"], "web-")


async def test_a_deleted_pod_goes_with_the_write_that_frees_its_name(plane):
    await plane.create()
    gone = await ask(plane.chain, "DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert (gone.status, (await plane.stored())["deletionGracePeriodSeconds"]) == (200, 0)
    assert (await plane.create()).status == 409, "a namesake waits"
    merge = {"content_type": "application/merge-patch+json"}
    freed = await ask(plane.chain, "PATCH", f"{PODS}/web/status", {"metadata": {"finalizers": []}}, **merge)
    assert freed.status == 200
    assert (await plane.create()).status == 201


async def test_a_generated_name_is_known_to_the_scheduler(plane):
    made = await plane.create(generate="web-")
    assert plane.scheduler.asked[0][3] == made["metadata"]["name"]


async def test_a_pod_that_has_to_wait_is_stored_without_a_super_cluster(plane):
    plane.scheduler.super_id = ""
    assert marks((await plane.create())["metadata"]) == [None, None]
    assert plane.scheduler.told == ["writing", "written"]


@pytest.mark.parametrize("how", ["elsewhere", "silent", "broken"])
async def test_a_scheduler_that_does_not_answer_does_not_keep_pods_from_being_created(
    plane, how, monkeypatch
):
    monkeypatch.setattr(pod_placement, "ANSWER_SECONDS", 0.01)
    if how == "elsewhere":
        plane.scheduler.super_id = None
    plane.scheduler.silent = how == "silent"
    plane.scheduler.error = RuntimeError("a defect") if how == "broken" else None
    made = await plane.create()
    assert (made.status, marks(made["metadata"])) == (201, [None, None])


async def test_a_promise_that_does_not_hold_any_more_is_not_written(plane):
    plane.scheduler.holds = False
    made = await plane.create(labels={"app": "web"})
    assert made["metadata"]["labels"] == {"app": "web"}
    assert "annotations" not in made["metadata"]
    assert "finalizers" not in made["metadata"]
    assert marks(await plane.stored()) == [None, None]


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {SUPER_CLUSTER: "r2"}},
        {"annotations": {SUPER_CLUSTER: "r2"}},
        {"nodeName": "n.r2"},
        {"schedulingGates": [{"name": "example.com/wait"}]},
        {"schedulerName": "mine"},
        {"query": "?dryRun=All"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_the_scheduler_is_not_asked_about(plane, fields):
    made = await plane.create(**fields)
    assert made.status == 201
    assert plane.scheduler.asked == []
    wanted = {key: fields.get(key, {}).get(SUPER_CLUSTER) for key in ("labels", "annotations")}
    assert marks(made["metadata"]) == list(wanted.values())


async def test_other_kinds_and_updates_are_left_alone(plane):
    await plane.create()
    await ask(plane.chain, "POST", "/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "web"}})
    body = {"metadata": {"labels": {"app": "web"}}}
    merge = {"content_type": "application/merge-patch+json"}
    assert (await ask(plane.chain, "PATCH", f"{PODS}/web", body, **merge)).status == 200
    assert len(plane.scheduler.asked) == 1


async def test_a_refused_quota_gives_the_promise_back(plane):
    plane.quota.refuses = True
    assert (await plane.create()).status == 403
    assert plane.scheduler.told == ["given back"]


async def test_a_later_refusal_gives_the_promise_back(plane):
    plane.refuses = True
    assert (await plane.create()).status == 403
    assert plane.scheduler.told == ["given back"]


async def test_an_invalid_pod_gives_the_promise_back(plane):
    assert (await plane.create(restartPolicy="Sometimes")).status == 422
    assert plane.scheduler.told == ["given back"]


async def test_a_pod_that_exists_gives_the_promise_of_the_second_one_back(plane):
    await plane.create()
    assert (await plane.create()).status == 409
    assert [each.told for each in plane.scheduler.promises] == [
        ["writing", "written"],
        ["writing", "given back"],
    ]


async def test_a_full_store_gives_the_promise_back(plane):
    plane.store.error = StoreFull("the disk is full")
    assert (await plane.create()).status >= 500
    assert plane.scheduler.told == ["writing", "given back"]


async def test_an_unknown_outcome_leaves_the_promise_to_its_time(plane):
    plane.store.error = StoreUnavailable("no answer")
    assert (await plane.create()).status >= 500
    assert plane.scheduler.told == ["writing"]


async def test_a_write_whose_client_has_gone_decides_its_promise(plane):
    plane.store.gate = asyncio.Event()
    request = asyncio.create_task(plane.create())
    while not (plane.scheduler.promises and plane.scheduler.told):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    request.cancel()
    await asyncio.wait((request,))
    assert plane.scheduler.told == ["writing"]
    plane.store.gate.set()
    while len(plane.scheduler.told) < 2:
        await asyncio.sleep(0.001)
    assert plane.scheduler.told == ["writing", "written"]
    assert marks(await plane.stored()) == ["r1", "r1"]


async def test_a_client_that_goes_before_the_write_gives_the_promise_back(plane):
    waiting = asyncio.Event()

    async def hang(_):
        waiting.set()
        await asyncio.Event().wait()

    plane.validate = hang
    plane.chain = assemble(
        plane.store,
        Everybody(),
        admit=(PodPlacement(plane.scheduler, Lookup(plane.store)),),
        validate=(hang,),
    ).server.chain
    request = asyncio.create_task(plane.create())
    await waiting.wait()
    request.cancel()
    await asyncio.wait((request,))
    assert plane.scheduler.told == ["given back"]


async def test_a_write_that_is_attempted_again_keeps_its_promise(plane):
    plane.store.conflicts = 1
    made = await plane.create()
    assert (made.status, marks(made["metadata"])) == (201, ["r1", "r1"])
    assert plane.scheduler.told == ["writing", "writing", "written"]


async def test_a_client_that_goes_while_a_write_fails_gives_the_promise_back(plane):
    plane.store.gate, plane.store.conflicts = asyncio.Event(), 1
    request = asyncio.create_task(plane.create())
    while not (plane.scheduler.promises and plane.scheduler.told):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    request.cancel()
    await asyncio.wait((request,))
    plane.store.gate.set()
    while len(plane.scheduler.told) < 2:
        await asyncio.sleep(0.001)
    assert plane.scheduler.told == ["writing", "given back"]
