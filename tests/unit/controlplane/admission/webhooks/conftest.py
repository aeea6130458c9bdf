"""A control plane whose webhooks answer at once, as `hack.webhooks` says."""

import json

import pytest
from asked_plane import Everybody, ask

from hack.webhooks import ANSWERS
from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.egress.failure import CallFailed, of_status
from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.store.sqlite import open_sqlite

GROUP = "/apis/admissionregistration.k8s.io/v1"


async def _nothing(asked):
    return None


class Api:
    """Asks one process; `asked` is what webhooks were sent, by path."""

    def __init__(self, store):
        self.asked = []
        self.calls = []
        self.configurations = Configurations(store)
        catalogue = Catalogue()
        webhooks = Webhooks(store, self.configurations, Versions(catalogue), self._reach)
        plane = assemble(
            store,
            Everybody(),
            admit=(mutation(_nothing, _nothing, webhooks),),
            validate=(webhooks.validate,),
            catalogue=catalogue,
        )
        self._way = plane.server._way

    async def _reach(self, call):
        review = json.loads(call.body())
        path = call.target.path
        self.calls.append(call)
        self.asked.append((path, review))
        if path == "/unreachable":
            raise CallFailed(f'Post "{call.url}": dial tcp')
        status, headers, body = ANSWERS[path](review)
        if status != 200:
            raise of_status(status, headers.get("Content-Type", ""), body)
        return body

    def requests(self, path=""):
        return [review["request"] for asked, review in self.asked if asked == path or not path]

    async def __call__(self, method, path, body=None, content="application/json"):
        content = "application/merge-patch+json" if method == "PATCH" and "patch" not in content else content
        return await ask(self._way, method, path, body, content_type=content)

    async def configure(self, sort, *hooks, name="c", tenant=""):
        """Configure webhooks, each (path, what differs from the usual), in effect at once."""
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
