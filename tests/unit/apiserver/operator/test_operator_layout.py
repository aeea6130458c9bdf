"""Data of earlier versions: custom objects are moved to keys of their own, once, and nothing else is touched."""

import msgspec

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.operator.storage_layout import CURRENT, migrate
from vcsync.apiserver.storage.interface import Delete, Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.records import LAYOUT

RBAC = "rbac.authorization.k8s.io"


def definition(group, plural):
    key = object_key("acme", "apiextensions.k8s.io", "customresourcedefinitions", "", f"{plural}.{group}")
    return Put(key, msgspec.json.encode({"spec": {"group": group, "names": {"plural": plural}}}))


async def keys(store):
    return [
        record.key for record in (await store.range("acme/")).records if "apiextensions" not in record.key
    ]


async def test_custom_objects_are_moved_and_built_in_ones_stay(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    try:
        widgets = [Put(f"acme/example.com/widgets/ns/{number}", b"%d" % number) for number in range(3)]
        role = Put(f"acme/{RBAC}/clusterroles/admin", b"{}")
        defined = [definition("example.com", "widgets"), definition(RBAC, "clusterroles")]
        await store.txn([], [*defined, *widgets, role])

        assert await migrate(store, ["acme", "empty"]) == 3

        assert await keys(store) == [
            *(f"acme/custom:example.com/widgets/ns/{number}" for number in range(3)),
            f"acme/{RBAC}/clusterroles/admin",
        ]
        assert (await store.get("acme/custom:example.com/widgets/ns/2"))[0].value == b"2"
        assert (await store.get(LAYOUT))[0].value == CURRENT
    finally:
        await store.close()


async def test_what_was_cut_off_goes_on_and_what_is_done_is_not_done_again(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    try:
        await store.txn([], [definition("example.com", "widgets"), Put("acme/example.com/widgets/a", b"1")])
        await store.txn([], [Put("acme/custom:example.com/widgets/b", b"2")])
        assert await migrate(store, ["acme"]) == 1
        assert await migrate(store, ["acme"]) == 0

        await store.txn([], [Delete(LAYOUT), Put("acme/example.com/widgets/c", b"3")])
        assert await migrate(store, ["acme"]) == 1
        assert await keys(store) == [f"acme/custom:example.com/widgets/{name}" for name in "abc"]
    finally:
        await store.close()


async def test_a_definition_that_cannot_be_read_keeps_nobody_from_starting(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    try:
        prefix = "acme/apiextensions.k8s.io/customresourcedefinitions/"
        odd = [
            Put(f"{prefix}{number}", text) for number, text in enumerate((b'{"spec":5}', b"{}", b"no JSON"))
        ]
        widget = Put("acme/example.com/widgets/ns/a", b"1")
        await store.txn([], [*odd, definition("example.com", "widgets"), widget])

        assert await migrate(store, ["acme"]) == 1

        assert await keys(store) == ["acme/custom:example.com/widgets/ns/a"]
        assert (await store.get(LAYOUT))[0].value == CURRENT
    finally:
        await store.close()
