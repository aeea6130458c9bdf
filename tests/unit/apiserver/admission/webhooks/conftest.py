"""A control plane whose webhooks respond without a network, with `hack.webhooks.ANSWERS`."""

import json

import pytest
from asked_plane import Everybody, ask

from hack.webhooks import ANSWERS
from vcsync.apiserver.admission.framework.configurations import Configurations
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.egress.failure import CallFailed, error_of_status
from vcsync.apiserver.storage.sqlite import open_sqlite

GROUP = "/apis/admissionregistration.k8s.io/v1"


async def _nothing(admission):
    return None


class Api:
    """A client of a control plane. `reviews`: (path, AdmissionReview) of all calls of webhooks."""

    def __init__(self, store):
        self.reviews = []
        self.calls = []
        self.configurations = Configurations(store)
        self.catalogue = catalogue = Catalogue()
        webhooks = Webhooks(store, self.configurations, Versions(catalogue), self._reach)
        plane = assemble(
            store,
            Everybody(),
            admit=(mutation(_nothing, _nothing, webhooks),),
            validate=(webhooks.validate,),
            catalogue=catalogue,
        )
        self._chain = plane.server.chain

    async def _reach(self, call):
        review = json.loads(call.body())
        path = call.target.path
        self.calls.append(call)
        self.reviews.append((path, review))
        if path == "/unreachable":
            raise CallFailed(f'Post "{call.url}": dial tcp')
        status, headers, body = ANSWERS[path](review)
        if status != 200:
            raise error_of_status(status, headers.get("Content-Type", ""), body)
        return body

    def requests(self, path=""):
        return [review["request"] for called, review in self.reviews if path in ("", called)]

    async def __call__(self, method, path, body=None, content="application/json"):
        content = "application/merge-patch+json" if method == "PATCH" and "patch" not in content else content
        return await ask(self._chain, method, path, body, content_type=content)

    async def configure(self, sort, *hooks, name="c", tenant=""):
        """Create a configuration with webhooks, each (path, changes to the defaults). It takes effect immediately."""
        made = {"metadata": {"name": name}, "webhooks": [_hook(*each) for each in hooks]}
        found = await self("POST", f"{tenant}{GROUP}/{sort}webhookconfigurations", made)
        assert found.status == 201, found.body
        self.configurations.forget()


def _hook(path, changes=None):
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": f"{path.strip('/')}.example.org",
        "clientConfig": {"url": f"https://hooks.example.com{path}"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **(changes or {}),
    }


@pytest.fixture
async def api(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    found = Api(store)
    for tenant in ("", "/tenants/b"):
        made = await found(
            "POST", f"{tenant}/api/v1/namespaces", {"metadata": {"name": "n", "labels": {"team": "x"}}}
        )
        assert made.status == 201, made.body
    yield found
    await store.close()
