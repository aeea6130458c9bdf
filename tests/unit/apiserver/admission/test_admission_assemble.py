"""Admission as a control plane assembles it: configured plug-ins, policies, and webhooks for custom resources."""

import json

import pytest
from asked_plane import Everybody, ask

from hack.webhooks import ANSWERS
from vcsync.apiserver.admission.assemble import admission
from vcsync.apiserver.admission.framework.settings import Exemptions, Limited, Settings
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.sqlite import open_sqlite

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Rights(Everybody):
    """Authorizes everything."""

    async def may(self, *_):
        return True

    async def check_roles(self, admission):
        return None

    async def check_grant(self, caller, grant):
        return None


class Plane:
    """A client of a control plane. `requests`: AdmissionRequests sent to webhooks."""

    def __init__(self, store, plugins):
        self.requests = []
        self.catalogue = Catalogue()
        rights = Rights()
        found = admission(store, rights, self.catalogue, self._reach, plugins)
        self.configurations = found.configurations
        self._chain = assemble(
            store,
            rights,
            admit=found.admit,
            validate=found.validate,
            charges=found.charges,
            catalogue=self.catalogue,
        ).server.chain

    async def _reach(self, call):
        review = json.loads(call.body())
        self.requests.append(review["request"])
        return ANSWERS[call.target.path](review)[2]

    async def __call__(self, method, path, body=None):
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return await ask(self._chain, method, path, body, content_type=content)


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


async def test_the_configuration_of_plug_ins_applies(store):
    settings = Settings(
        exemptions=Exemptions(namespaces=frozenset({"n"})),
        limited=(Limited("", "configmaps", ("count/configmaps",)),),
    )
    plane = Plane(store, settings)
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    made = await plane("POST", "/api/v1/namespaces", {"metadata": {"name": "n", "labels": labels}})
    assert made.status == 201
    assert ["is exempt from Pod Security" in each for each in made.warnings] == [True]
    refused = await plane("POST", "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "one"}})
    assert refused.status == 403
    assert "insufficient quota to consume: count/configmaps" in refused.body["message"]


async def test_webhooks_receive_custom_resources_in_their_version(store):
    plane = Plane(store, Settings())
    assert (await plane("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})).status == 201
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    await plane("POST", DEFINITIONS, {"metadata": {"name": "gadgets.example.org"}, "spec": spec})
    accepted = {"acceptedNames": names, "conditions": [{"type": "NamesAccepted", "status": "True"}]}
    await plane("PATCH", f"{DEFINITIONS}/gadgets.example.org/status", {"status": accepted})
    plane.catalogue.forget("a")
    rule = {
        "operations": ["CREATE"],
        "apiGroups": ["example.org"],
        "apiVersions": ["v2"],
        "resources": ["gadgets"],
    }
    hook = {
        "name": "deny.example.org",
        "clientConfig": {"url": "https://hooks.example.com/deny"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made = await plane("POST", WEBHOOKS, {"metadata": {"name": "c"}, "webhooks": [hook]})
    assert made.status == 201, made.body
    plane.configurations.forget()
    body = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    refused = await plane("POST", "/apis/example.org/v1/namespaces/n/gadgets", body)
    assert refused.status == 400
    assert [each["object"]["apiVersion"] for each in plane.requests] == ["example.org/v2"]
