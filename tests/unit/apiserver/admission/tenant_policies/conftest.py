"""A control plane in whose store tests write as the operator."""

from itertools import count

import msgspec
import pytest
from asked_plane import Everybody, ask

from vcsync.apiserver.admission.assemble import admission
from vcsync.apiserver.admission.tenant_policies.following import POLICIES
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.interface import Change, Delete, Put
from vcsync.apiserver.storage.sqlite import open_sqlite

NUMBERS = count()
"""Compiled expressions are kept by UID, for all control planes of a process."""


class Rights(Everybody):
    """Authorizes everything."""

    async def may(self, *_):
        return True

    async def check_roles(self, admission):
        return None

    async def check_grant(self, caller, grant):
        return None


class Plane:
    """A control plane whose store changes as an operator's writes change it."""

    def __init__(self, store):
        self.store = store
        self.rights = Rights()
        found = admission(store, self.rights, Catalogue(), None)
        self.policies = found.tenant_policies
        self._chain = assemble(
            store, self.rights, admit=found.admit, validate=found.validate, charges=found.charges
        ).server.chain

    async def __call__(self, method, path, body=None, **headers):
        return await ask(self._chain, method, path, body, **headers)

    async def put(self, key, value):
        encoded = None if value is None else msgspec.json.encode(value)
        operation = Delete(key) if encoded is None else Put(key, encoded)
        outcome = await self.store.txn([], [operation])
        self.policies.changed([Change(outcome.revision, key, encoded, None, outcome.revision)])

    async def policy(self, name="p", **spec):
        metadata = {"name": name, "uid": f"uid-{name}-{next(NUMBERS)}", "generation": 1}
        await self.put(POLICIES + name, {"metadata": metadata, "spec": spec})


@pytest.fixture
async def plane(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    made = Plane(store)
    for tenant in ("a", "b"):
        answer = await made("POST", f"/tenants/{tenant}/api/v1/namespaces", {"metadata": {"name": "n"}})
        assert answer.status == 201
        account = {"metadata": {"name": "default"}}
        answer = await made("POST", f"/tenants/{tenant}/api/v1/namespaces/n/serviceaccounts", account)
        assert answer.status == 201
    yield made
    await store.close()
