"""Roles have only the permissions that they need, and none that escalates privileges."""

from typing import Any

import pytest

from vcsync.api import names, rbac
from vcsync.api.specs import SecretRef

EVERY_GRANT = [
    pytest.param(side, role, grant, id=f"{side}-{role}-{'+'.join(grant.resources)}")
    for (side, role), grants in rbac.GRANTS.items()
    for grant in grants
]
ESCALATING = {"escalate", "bind", "impersonate", "*", "deletecollection"}
BINDS_STREAMS = (
    rbac.Grant(
        group="rbac.authorization.k8s.io",
        resources=("rolebindings",),
        verbs=("get", "list", "watch", "create", "patch"),
    ),
    rbac.Grant(
        group="rbac.authorization.k8s.io",
        resources=("clusterroles",),
        verbs=("bind",),
        names=("vcsync-streams",),
    ),
)
"""Grants of a syncer by which it binds one role that it does not have itself."""


@pytest.mark.parametrize(("side", "role", "grant"), EVERY_GRANT)
def test_no_grant_escalates(side: str, role: str, grant: rbac.Grant) -> None:
    if (side, role) == ("super", "streams"):
        return  # It is bound in tenants' namespaces only.
    if (side, role) == ("super", "syncer") and grant in BINDS_STREAMS:
        return
    assert not ESCALATING & set(grant.verbs)
    assert "*" not in grant.group
    for resource in grant.resources:
        assert "*" not in resource
        assert resource not in {
            "pods/exec",
            "pods/attach",
            "pods/portforward",
            "nodes/proxy",
            "certificatesigningrequests",
        }
    assert grant.group not in {"rbac.authorization.k8s.io", "admissionregistration.k8s.io"}


def test_definitions_are_deleted_by_no_role_and_written_in_tenants_only() -> None:
    found = {
        (side, role): grant.verbs
        for side, role, grant in (each.values for each in EVERY_GRANT)
        if grant.group == "apiextensions.k8s.io"
    }
    assert found == {
        ("super", names.ROLE_SYNCER): rbac.READ,
        ("tenant", names.ROLE_NSSCHEDULER): (*rbac.READ, "create", "patch"),
    }


@pytest.mark.parametrize(("side", "role", "grant"), EVERY_GRANT)
def test_tokens_are_requested_only_for_tenants_service_accounts(
    side: str, role: str, grant: rbac.Grant
) -> None:
    if "serviceaccounts/token" in grant.resources:
        assert (side, role) == ("tenant", names.ROLE_SYNCER)


@pytest.mark.parametrize(("side", "role", "grant"), EVERY_GRANT)
def test_secrets_of_the_meta_cluster_are_read_by_name_only(side: str, role: str, grant: rbac.Grant) -> None:
    if side != "meta" or "secrets" not in grant.resources:
        return
    if role == names.ROLE_TENANTS:
        assert set(grant.verbs) & {"get", "list", "watch"} == set() or grant.namespace == "vcsync"
        return
    assert grant.verbs == ("get",)
    allowed = [{f"kubeconfig-{role}", "admin-kubeconfig"}]
    if role == names.ROLE_PODSCHEDULER:
        # The authority of the placement webhook's certificate, `placement-webhook-ca`, is the operators' alone.
        allowed += [{"placement-webhook"}, {"placement-webhook-tls"}]
    assert set(grant.names) in allowed


def may(side: Any, role: str, verb: str, resource: str) -> bool:
    return any(
        verb in grant.verbs and resource in grant.resources for grant in rbac.GRANTS.get((side, role), ())
    )


@pytest.mark.parametrize(
    ("side", "role", "verb", "resource"),
    [
        ("meta", "syncer", "patch", "superclusters"),
        ("meta", "syncer", "patch", "namespaceplacements/status"),
        ("meta", "syncer", "delete", "namespaceplacements"),
        ("meta", "nsscheduler", "patch", "superclusters"),
        ("meta", "podscheduler", "patch", "superclusters/status"),
        ("meta", "podscheduler", "patch", "namespaceplacements"),
        ("meta", "podscheduler", "patch", "virtualclusters"),
        ("meta", "syncer", "patch", "virtualclusters/status"),
        ("meta", "podscheduler", "patch", "virtualclusters/status"),
        ("super", "nsscheduler", "get", "pods"),
        ("super", "podscheduler", "get", "pods"),
        ("super", "syncer", "patch", "nodes"),
        ("tenant", "syncer", "create", "pods"),
        ("tenant", "syncer", "patch", "pods"),
        ("tenant", "syncer", "patch", "secrets"),
        ("tenant", "nsscheduler", "get", "secrets"),
        ("tenant", "nsscheduler", "create", "nodes"),
        ("tenant", "nsscheduler", "patch", "nodes"),
        ("tenant", "podscheduler", "get", "secrets"),
        ("tenant", "podscheduler", "create", "pods/binding"),
        ("meta", "tenants", "list", "secrets"),
        ("meta", "tenants", "delete", "secrets"),
        ("meta", "tenants", "create", "tenants"),
        ("meta", "tenants", "delete", "tenants"),
        ("meta", "tenants", "patch", "namespaceplacements"),
        ("tenant", "tenants", "get", "namespaces"),
        ("super", "tenants", "get", "namespaces"),
    ],
)
def test_permissions_of_other_roles_are_not_granted(side: str, role: str, verb: str, resource: str) -> None:
    assert not may(side, role, verb, resource)


@pytest.mark.parametrize(
    ("side", "role", "verb", "resource"),
    [
        ("meta", "syncer", "patch", "superclusters/status"),
        ("meta", "syncer", "patch", "namespaceplacements"),
        ("meta", "nsscheduler", "patch", "namespaceplacements/status"),
        ("meta", "nsscheduler", "patch", "virtualclusters/status"),
        ("meta", "nsscheduler", "patch", "superclusters/status"),
        ("super", "syncer", "patch", "pods/resize"),
        ("tenant", "syncer", "create", "pods/binding"),
        ("tenant", "nsscheduler", "patch", "namespaces"),
        ("tenant", "nsscheduler", "delete", "nodes"),
        ("tenant", "podscheduler", "patch", "pods"),
    ],
)
def test_a_role_has_the_permissions_it_needs(side: str, role: str, verb: str, resource: str) -> None:
    assert may(side, role, verb, resource)


@pytest.mark.parametrize(
    "manifests", [rbac.meta_manifests(), rbac.super_manifests(), rbac.tenant_manifests()]
)
def test_bindings_bind_roles_that_exist_to_accounts_that_exist(manifests: list[dict[str, Any]]) -> None:
    standing = {(m["kind"], m["metadata"].get("namespace", ""), m["metadata"]["name"]) for m in manifests}
    bindings = [m for m in manifests if m["kind"].endswith("Binding") and "roleRef" in m]
    assert bindings
    for binding in bindings:
        namespace = binding["metadata"].get("namespace", "")
        assert (binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]) in standing
        for subject in binding["subjects"]:
            assert (subject["kind"], subject["namespace"], subject["name"]) in standing


@pytest.mark.parametrize(
    "manifests", [rbac.meta_manifests(), rbac.super_manifests(), rbac.tenant_manifests()]
)
def test_no_object_occurs_twice(manifests: list[dict[str, Any]]) -> None:
    keys = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests]
    assert len(keys) == len(set(keys))


def test_a_syncer_can_read_only_the_credentials_of_its_super_cluster() -> None:
    role, binding = rbac.super_credentials_access("r1")
    assert role["metadata"]["namespace"] == names.SYSTEM_NAMESPACE
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["super-r1"], "verbs": ["get"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == "vcsync-syncer"


def test_the_grant_follows_the_secret_reference() -> None:
    role, binding = rbac.super_credentials_access("r1", SecretRef(namespace="vault", name="mine"))
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "vault"
    assert role["rules"][0]["resourceNames"] == ["mine"]


def test_an_invalid_super_id_is_refused() -> None:
    with pytest.raises(names.InvalidName):
        rbac.super_credentials_access("*")
    with pytest.raises(names.InvalidName):
        rbac.stream_credentials_access("*")


def test_streams_are_not_permitted_outside_of_tenants_namespaces() -> None:
    made = [m for m in rbac.super_manifests() if m["metadata"]["name"] == "vcsync-streams"]
    assert [m["kind"] for m in made] == ["ServiceAccount", "ClusterRole"]
    role, subjects = rbac.streams_binding()
    assert role == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "vcsync-streams"}
    assert subjects == [{"kind": "ServiceAccount", "name": "vcsync-streams", "namespace": "vcsync-system"}]


def test_streams_permit_nothing_but_logs_streams_ports_and_usage() -> None:
    granted = {
        (f"{resource}.{grant.group}" if grant.group else resource, verb)
        for grant in rbac.GRANTS["super", names.ROLE_STREAMS]
        for resource in grant.resources
        for verb in grant.verbs
    }
    streams = {
        (f"pods/{each}", verb) for each in ("exec", "attach", "portforward") for verb in ("get", "create")
    }
    ports = {("pods/proxy", verb) for verb in ("get", "create", "update", "patch", "delete")}
    usage = ("pods.metrics.k8s.io", "list")
    assert granted == {("pods", "get"), ("pods/log", "get"), usage} | streams | ports


def test_control_planes_can_read_only_their_own_credentials_of_a_super_cluster() -> None:
    role, binding = rbac.stream_credentials_access("r1")
    assert role["rules"][0]["resourceNames"] == ["streams-r1"]
    assert binding["subjects"][0]["name"] == "vcsync-streams"
    assert names.streams_secret("r1") != names.super_secret("streams-r1")


def test_the_secrets_of_two_super_clusters_never_have_one_name() -> None:
    ids = ["r1", "r1-streams", "streams-r1", "super-r1"]
    made = [make(each) for each in ids for make in (names.super_secret, names.streams_secret)]
    assert len(made) == len(set(made))


def _rules(manifests: list[rbac.Manifest], name: str) -> list[dict[str, Any]]:
    (role,) = (
        each for each in manifests if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", name)
    )
    rules: list[dict[str, Any]] = role["rules"]
    return rules


def test_the_gateway_reads_nothing_itself_and_may_act_as_readers_only_where_that_is_wanted() -> None:
    for readable, groups in (
        ((), [names.TENANT_ADMINS]),
        (("pods",), [names.TENANT_ADMINS, names.TENANT_READERS]),
    ):
        rules = _rules(rbac.gateway_manifests(readable=readable), names.service_account(names.ROLE_GATEWAY))
        on_resources = [rule for rule in rules if "resources" in rule]
        assert {verb for rule in on_resources for verb in rule["verbs"]} == {"impersonate", "create"}
        assert [rule["resourceNames"] for rule in on_resources if rule["resources"] == ["groups"]] == [groups]
        assert [rule for rule in rules if rule not in on_resources] == [
            {"nonResourceURLs": ["/openid/v1/jwks"], "verbs": ["get"]}
        ]


def test_readers_read_exactly_what_is_named() -> None:
    manifests = rbac.reader_manifests(["pods", "deployments.apps", "services", "widgets.example.com"])
    verbs = ["get", "list", "watch"]
    assert _rules(manifests, names.READER_ROLE) == [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": verbs},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs},
        {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": verbs},
    ]
    assert manifests[1]["subjects"][0]["name"] == names.TENANT_READERS
    everything = _rules(rbac.reader_manifests(["*"]), names.READER_ROLE)
    assert everything == [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]


@pytest.mark.parametrize(
    ("resource", "right"),
    [("pods", True), ("deployments.apps", True), ("*", True), ("", False), ("pods/log", False), ("*.apps", False),
     ("Pods", False), ("pods,services", False)],
)  # fmt: skip
def test_what_can_be_made_readable(resource: str, right: bool) -> None:
    assert (rbac.readable_problem(resource) == "") is right


def test_the_pod_scheduler_writes_no_endpoints_but_those_of_its_own_service() -> None:
    [grant] = [
        each for each in rbac.GRANTS["meta", names.ROLE_PODSCHEDULER] if "endpointslices" in each.resources
    ]
    assert (grant.verbs, grant.names) == (("patch",), (names.PLACEMENT_SERVICE,))
    assert grant.namespace == names.SYSTEM_NAMESPACE


def test_readers_of_status_endpoints_get_the_paths_and_nothing_else() -> None:
    found = {each["metadata"]["name"]: each["rules"] for each in rbac.status_readers()}
    assert found == {
        "vcsync-status-reader": [{"nonResourceURLs": ["/status", "/timeline"], "verbs": ["get"]}],
        "vcsync-metrics-reader": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }


def test_nobody_reads_status_endpoints_before_an_operator_binds_them() -> None:
    bound = {
        each["roleRef"]["name"]
        for each in rbac.meta_manifests()
        if each["kind"] in {"RoleBinding", "ClusterRoleBinding"}
    }
    assert not bound & set(rbac.STATUS_PATHS.values())


@pytest.mark.parametrize("resource", ["tokenreviews", "subjectaccessreviews"])
def test_only_roles_with_a_status_endpoint_ask_the_meta_cluster_who_calls(resource: str) -> None:
    may_ask = {
        role: grant.verbs
        for (side, role), grants in rbac.GRANTS.items()
        for grant in grants
        if side == "meta" and resource in grant.resources
    }
    assert may_ask == dict.fromkeys(names.META_ROLES, ("create",))
