"""A control plane whose webhooks answer at once, as `hack.webhooks` says."""

import json
from types import SimpleNamespace

import msgspec
import pytest

from hack.webhooks import ANSWERS
from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.egress.failure import CallFailed, of_status
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.rest.way import Incoming
from vcsync.controlplane.store.sqlite import open_sqlite

GROUP = "/apis/admissionregistration.k8s.io/v1"


class Everybody:
    """Lets everybody do everything; the tenants are a and b."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), "a", True)

    def exists(self, tenant):
        return tenant in ("a", "b")

    def tenants(self):
        return ["a", "b"]

    async def impersonate(self, caller, headers, tenant, info):
        return caller

    async def authorize(self, caller, info, audit):
        return None

    async def token_request(self, tenant, namespace, name, body):
        return {**body, "status": {"token": "x"}}


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
        async def read():
            return b"" if body is None else msgspec.json.encode(body)

        route, _, query = path.partition("?")
        content = "application/merge-patch+json" if method == "PATCH" and "patch" not in content else content
        headers = {"Content-Type": content, "Accept": "application/json"}
        outgoing = await self._way.go(Incoming(method, route, query, headers, None, read))
        answer = outgoing.answer
        body = msgspec.json.decode(b"".join(answer.body))
        return SimpleNamespace(status=answer.status, body=body, warnings=outgoing.warnings)

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
