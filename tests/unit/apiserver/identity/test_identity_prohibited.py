"""Resources that a tenant with virtual nodes may not have: discovery, OpenAPI and authorization agree about them."""

import json

import pytest

from vcsync.api import names
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import User
from vcsync.apiserver import openapi
from vcsync.apiserver.discovery import documents
from vcsync.apiserver.request.caller import MASTERS, SYSTEM, UNAUTHENTICATED, Attributes, Caller, Decision
from vcsync.apiserver.tenants.builtin_resources import HIDDEN, VERBS, every_resource, without_nodes

ADMIN = User("admin", "", (names.TENANT_ADMINS, "system:authenticated"), {})
TENANT = Caller(ADMIN, "acme")
SYNCER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:vcsync-syncer"


def shown(builtins) -> dict[tuple[str, str], set[str]]:
    """Return (group, resource or resource/subresource) -> verbs, from both forms of discovery, which agree."""
    legacy: dict[tuple[str, str], set[str]] = {}
    for group, version in {(each.group, each.version) for each in builtins.resources}:
        listed = json.loads(documents.resource_list(group, version, builtin=builtins) or b"{}")
        for each in listed["resources"]:
            legacy.setdefault((group, each["name"]), set()).update(each["verbs"])
    aggregated: dict[tuple[str, str], set[str]] = {}
    for core in (True, False):
        for item in json.loads(documents.aggregated(builtin=builtins, core=core).body)["items"]:
            group = item["metadata"].get("name", "")
            for each in (each for version in item["versions"] for each in version["resources"]):
                aggregated.setdefault((group, each["resource"]), set()).update(each["verbs"])
                for sub in each.get("subresources", ()):
                    name = f"{each['resource']}/{sub['subresource']}"
                    aggregated.setdefault((group, name), set()).update(sub["verbs"])
    assert legacy == aggregated
    return legacy


async def test_discovery_and_authorization_agree_about_every_verb(house) -> None:
    everything, limited = shown(every_resource()), shown(without_nodes())
    assert len(everything) > len(limited)
    for (group, name), verbs in everything.items():
        resource, _, subresource = name.partition("/")
        for verb in verbs:
            asked = Attributes(verb, group=group, resource=resource, subresource=subresource, name="x")
            decision = await house.identity.authorizer.decide(TENANT, asked)
            assert decision.allowed == (verb in limited.get((group, name), ())), (group, name, verb)
            assert decision.allowed or "the operator's clusters" in decision.reason


@pytest.mark.parametrize("tenant", ["acme", "missing"])
async def test_anonymous_callers_do_not_learn_what_kind_of_tenant_there_is(house, tenant: str) -> None:
    """Only embedded tenants with virtual nodes have prohibited resources; others, and missing ones, have the same answer."""
    anonymous = Caller(User("system:anonymous", "", (UNAUTHENTICATED,), {}), tenant)
    asked = Attributes("get", resource="nodes", subresource="proxy", name="x")
    assert await house.identity.authorizer.decide(anonymous, asked) == Decision(False)


def test_only_reading_nodes_is_left_and_nothing_of_the_hidden_resources() -> None:
    limited = shown(without_nodes())
    assert limited["", "nodes"] == {"get", "list", "watch"}
    assert limited["", "nodes/status"] == {"get"}
    assert ("", "nodes/proxy") not in limited
    for group, plural in HIDDEN:
        assert not any(found == group and name.split("/")[0] == plural for found, name in limited)
    missing = {each.plural for each in builtin.resources()} - {name for _, name in limited}
    assert missing == {plural for _, plural in HIDDEN}


def methods(document) -> dict[str, set[str]]:
    return {path: {*operations} - {"parameters"} for path, operations in document["paths"].items()}


def test_openapi_has_exactly_the_methods_of_discovery() -> None:
    whole, limited = (
        json.loads(openapi.swagger(builtin=each).body) for each in (every_resource(), without_nodes())
    )
    before, after = methods(whole), methods(limited)
    assert after["/api/v1/nodes/{name}"] == after["/api/v1/nodes"] == {"get"}
    changed = {path for path in before if before[path] != after.get(path)}
    allowed = ("/nodes", *(f"/{plural}" for _, plural in HIDDEN))
    assert changed
    assert all(any(part in path for part in allowed) for path in changed)
    assert not any(part in path for path in after for part in allowed[1:])
    gone = whole["definitions"].keys() - limited["definitions"].keys()
    assert "io.k8s.api.apps.v1.DaemonSet" in gone
    assert "io.k8s.api.core.v1.Node" not in gone
    assert not any(each in json.dumps(limited) for each in ('DaemonSet"', 'CSIDriver"', 'VolumeAttachment"'))
    # Nothing refers to what is gone.
    assert not any(f'/{name}"' in json.dumps(limited) for name in gone)
    assert openapi.swagger(builtin=without_nodes()).etag != openapi.swagger(builtin=every_resource()).etag


@pytest.mark.parametrize("path", ["api/v1", "apis/apps/v1", "apis/storage.k8s.io/v1", "apis/batch/v1"])
def test_documents_of_version_3_agree_with_version_2(path: str) -> None:
    limited = without_nodes()
    swagger = methods(json.loads(openapi.swagger(builtin=limited).body))
    found = openapi.document(path, builtin=limited)
    assert found is not None
    for at, operations in methods(json.loads(found.body)).items():
        assert operations == swagger[at]
    urls = [
        json.loads(openapi.index(builtin=each))["paths"][path]["serverRelativeURL"]
        for each in (limited, every_resource())
    ]
    assert urls[0] != urls[1]


async def test_discovery_depends_on_the_tenant_and_the_caller(house) -> None:
    tenants, decide = house.identity.tenants, house.identity.authorizer.decide
    create = Attributes("create", resource="nodes")
    assert tenants.has_only_virtual_nodes("acme")
    assert not tenants.has_only_virtual_nodes(SYSTEM)
    await house.identity.lifecycle.create("r1", nodes="own")
    await house.identity.lifecycle.create("outside", controllers="external")
    for tenant in ("r1", "outside"):
        assert not tenants.has_only_virtual_nodes(tenant)
        assert (await decide(Caller(ADMIN, tenant), create)).allowed
    operator = Caller(User("admin", "", (MASTERS,), {}), SYSTEM, system=True)
    assert (await decide(operator, create)).allowed
    await house.identity.lifecycle.set_controllers("acme", "external")
    assert (await decide(TENANT, create)).allowed
    await house.identity.lifecycle.set_controllers("acme", "vcsync")
    assert not (await decide(TENANT, create)).allowed


@pytest.mark.parametrize(
    ("group", "resource", "verb", "allowed"),
    [
        ("*", "nodes", "create", False),
        ("", "nodes", "*", False),
        ("", "*", "*", True),
        ("*", "*", "*", True),
        ("", "daemonsets.apps", "create", False),
        ("", "daemonsets", "list", False),
        ("*", "csidrivers", "get", False),
        ("example.com", "daemonsets", "create", True),
        ("example.com", "nodes", "delete", True),
        ("authentication.k8s.io", "nodes", "impersonate:arbitrary-node", True),
    ],
)
async def test_wildcards_and_names_of_access_reviews(house, group, resource, verb, allowed) -> None:
    decision = await house.identity.authorizer.decide(
        TENANT, Attributes(verb, group=group, resource=resource)
    )
    assert decision.allowed == allowed


async def test_the_roles_write_nodes_and_nobody_acts_as_them(house) -> None:
    binding = {
        "metadata": {"name": "syncer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [
            {"kind": "ServiceAccount", "name": "vcsync-syncer", "namespace": names.SYSTEM_NAMESPACE}
        ],
    }
    await house.put("acme", "rbac.authorization.k8s.io", "clusterrolebindings", binding)
    create = Attributes("create", resource="nodes")
    syncer = Caller(User(SYNCER, "", ("system:serviceaccounts",), {}), "acme")
    decide = house.identity.authorizer.decide
    assert (await decide(syncer, create)).allowed
    assert not (await decide(syncer, Attributes("create", group="apps", resource="daemonsets"))).allowed
    acting = await house.identity.authorizer.impersonate(TENANT, {"Impersonate-User": SYNCER}, "acme", create)
    assert acting.user.name == SYNCER
    assert not (await decide(acting, create)).allowed


def test_verbs_of_the_api_are_known() -> None:
    used = {verb for each in builtin.resources() for verb in each.verbs}
    assert used <= VERBS
