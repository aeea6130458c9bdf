"""A control plane whose only admission is policies."""

import pytest
from asked_plane import Everybody, ask

from vcsync.apiserver.admission.framework.configurations import Configurations
from vcsync.apiserver.admission.policy_context import policies
from vcsync.apiserver.admission.webhooks.dispatch import mutation
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.sqlite import open_sqlite

GROUP = "/apis/admissionregistration.k8s.io/v1"


async def _nothing(admission):
    return None


class NoWebhooks:
    """Webhooks that do nothing."""

    async def mutate(self, admission, known):
        return None


class Api:
    """A client of one process."""

    def __init__(self, store):
        self.configurations = Configurations(store)
        self.catalogue = catalogue = Catalogue()
        everybody = Everybody()
        enforced = policies(store, catalogue, self.configurations, everybody)
        plane = assemble(
            store,
            everybody,
            admit=(mutation(_nothing, enforced.mutate, NoWebhooks()),),
            validate=(enforced.validate,),
            catalogue=catalogue,
        )
        self._chain = plane.server.chain
        self._names = 0

    async def __call__(self, method, path, body=None, content="application/json", tenant="a"):
        return await ask(self._chain, method, f"/tenants/{tenant}{path}", body, content_type=content)

    async def policy(self, spec, *bindings, kind="validating"):
        """Create a policy and its bindings, which take effect immediately."""
        self._names += 1
        name = f"p{self._names}"
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
        if kind == "mutating":
            rules[0]["operations"] = ["CREATE", "UPDATE"]
            spec = {"reinvocationPolicy": "Never", **spec}
        spec = {"matchConstraints": {"resourceRules": rules}, **spec}
        made = await self(
            "POST", f"{GROUP}/{kind}admissionpolicies", {"metadata": {"name": name}, "spec": spec}
        )
        assert made.status == 201, made.body
        for at, each in enumerate(bindings or ({},)):
            actions = {"validationActions": ["Deny"]} if kind == "validating" else {}
            body = {"metadata": {"name": f"{name}-{at}"}, "spec": {"policyName": name, **actions, **each}}
            made = await self("POST", f"{GROUP}/{kind}admissionpolicybindings", body)
            assert made.status == 201, made.body
        self.configurations.forget()
        return name

    async def create(self, name="one", **more):
        """Create a ConfigMap."""
        body = {"metadata": {"name": name, **more.pop("metadata", {})}, **more}
        return await self("POST", "/api/v1/namespaces/default/configmaps", body)


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


@pytest.fixture
async def api(store):
    found = Api(store)
    for tenant in ("a", "b"):
        namespace = {"metadata": {"name": "default", "labels": {"team": "red"}}}
        made = await found("POST", "/api/v1/namespaces", namespace, tenant=tenant)
        assert made.status == 201, made.body
    return found
