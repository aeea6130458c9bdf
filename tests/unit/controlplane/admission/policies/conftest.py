"""A control plane of which nothing but policies holds writes up."""

from types import SimpleNamespace

import msgspec
import pytest

from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.webhooks.dispatch import mutation
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.identity.caller import Caller, Decision
from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.rest.policing import policies
from vcsync.controlplane.rest.way import Incoming
from vcsync.controlplane.store.sqlite import open_sqlite

GROUP = "/apis/admissionregistration.k8s.io/v1"


class Everybody:
    """Lets everybody do everything; policies are told that they may but get."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), tenant or "a", True)

    def exists(self, tenant):
        return tenant in ("a", "b")

    def tenants(self):
        return ["a", "b"]

    async def impersonate(self, caller, headers, tenant, info):
        return caller

    async def authorize(self, caller, info, audit):
        return None

    async def decide(self, caller, asked):
        return Decision(asked.verb == "get", f"as {caller.user.name}")


async def _nothing(asked):
    return None


class NoWebhooks:
    """Changes nothing."""

    async def mutate(self, asked, known):
        return None


class Api:
    """Asks one process."""

    def __init__(self, store):
        self.configurations, catalogue = Configurations(store), Catalogue()
        everybody = Everybody()
        enforced = policies(store, catalogue, self.configurations, everybody)
        plane = assemble(
            store,
            everybody,
            admit=(mutation(_nothing, enforced.mutate, NoWebhooks()),),
            validate=(enforced.validate,),
            catalogue=catalogue,
        )
        self._way = plane.server._way
        self._names = 0

    async def __call__(self, method, path, body=None, content="application/json", tenant="a"):
        async def read():
            return b"" if body is None else msgspec.json.encode(body)

        route, _, query = path.partition("?")
        headers = {"Content-Type": content, "Accept": "application/json"}
        incoming = Incoming(method, f"/tenants/{tenant}{route}", query, headers, None, read)
        outgoing = await self._way.go(incoming)
        answer = outgoing.answer
        body = msgspec.json.decode(b"".join(answer.body))
        return SimpleNamespace(status=answer.status, body=body, warnings=outgoing.warnings)

    async def policy(self, spec, *bindings, kind="validating"):
        """Create a policy and its bindings, which are in effect at once."""
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
