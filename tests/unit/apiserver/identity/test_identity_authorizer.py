"""Authorization by a tenant's own roles and bindings, escalation, impersonation."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.apiserver.identity.conftest import House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization import impersonation, policy_reader
from vcsync.apiserver.request.caller import Attributes, Caller, settle_tenant
from vcsync.apiserver.storage.interface import StoreError
from vcsync.objects.budget import Budget

GROUP = "rbac.authorization.k8s.io"
BOB = Caller(User("bob", groups=("devs", "ops", "system:authenticated")), "acme")
ADMIN = Caller(User("admin", groups=("vcsync:tenant-admins", "system:authenticated")), "acme")
OPERATOR = Caller(User("admin", groups=("system:masters",)), "system", system=True)
LIST_PODS = Attributes("list", resource="pods")


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place}, "rules": list(rules), **more}


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "apiGroups": groups.split(",") if groups else [""],
        "resources": resources.split(),
        **more,
    }


def binding(
    name: str, to: str, *users: str, kind: str = "ClusterRole", namespace: str = ""
) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {
        "metadata": {"name": name, **place},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user} for user in users],
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to},
    }


async def refusal_of(house: House, caller: Caller, asked: Attributes) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await house.identity.authorizer.authorize(caller, asked)
    return caught.value


async def test_who_has_no_right_is_told_so_in_the_real_servers_words(house: House) -> None:
    refused = await refusal_of(house, BOB, LIST_PODS)
    assert refused.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope',
        "reason": "Forbidden",
        "details": {"kind": "pods"},
        "code": 403,
    }
    scale = Attributes(
        "get", group="apps", resource="deployments", subresource="scale", namespace="default", name="x"
    )
    refused = await refusal_of(house, BOB, scale)
    assert refused.message == (
        'deployments.apps "x" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" '
        'in the namespace "default"'
    )
    assert refused.details == {"name": "x", "group": "apps", "kind": "deployments"}
    refused = await refusal_of(house, BOB, Attributes("get", "/metrics", resource_request=False))
    assert refused.message == 'forbidden: User "bob" cannot get path "/metrics"'


async def test_bindings_count_at_once_and_only_where_they_are(house: House) -> None:
    await house.put("acme", GROUP, "roles", role("reader", rule("get list", "pods"), namespace="default"))
    key = await house.put(
        "acme", GROUP, "rolebindings", binding("b1", "reader", "bob", kind="Role", namespace="default")
    )
    decide = house.identity.authorizer.decide
    within = Attributes("get", resource="pods", namespace="default")
    decision = await decide(BOB, within)
    assert decision.allowed
    assert decision.reason == 'RBAC: allowed by RoleBinding "b1/default" of Role "reader" to User "bob"'
    assert not (await decide(BOB, Attributes("get", resource="pods", namespace="other"))).allowed
    assert not (await decide(BOB, LIST_PODS)).allowed
    assert not (await decide(Caller(BOB.user, "umbrella"), within)).allowed
    await house.delete(key)
    assert not (await decide(BOB, within)).allowed


@pytest.mark.parametrize(
    ("subject", "place", "told"),
    [
        (
            {"kind": "Group", "name": "devs"},
            "",
            'ClusterRoleBinding "b" of ClusterRole "reader" to Group "devs"',
        ),
        (
            {"kind": "ServiceAccount", "name": "robot", "namespace": "n1"},
            "",
            'ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount "robot/n1"',
        ),
        (
            {"kind": "ServiceAccount", "name": "robot"},
            "n1",
            'RoleBinding "b/n1" of ClusterRole "reader" to ServiceAccount "robot/n1"',
        ),
    ],
)
async def test_the_binding_that_allows_is_told(
    house: House, subject: dict[str, str], place: str, told: str
) -> None:
    await house.put("acme", GROUP, "clusterroles", role("reader", rule("list", "pods")))
    plural = "rolebindings" if place else "clusterrolebindings"
    bound = binding("b", "reader", namespace=place)
    await house.put("acme", GROUP, plural, {**bound, "subjects": [subject]})
    user = User("system:serviceaccount:n1:robot") if subject["kind"] == "ServiceAccount" else BOB.user
    decision = await house.identity.authorizer.decide(
        Caller(user, "acme"), Attributes("list", resource="pods", namespace=place)
    )
    assert decision.reason == f"RBAC: allowed by {told}"


async def test_a_binding_to_a_role_that_is_not_there_is_told(house: House) -> None:
    await house.put("acme", GROUP, "clusterrolebindings", binding("dangling", "nothere", "bob"))
    refused = await refusal_of(house, BOB, LIST_PODS)
    assert refused.message.endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "nothere" not found')
    await house.put(
        "acme", GROUP, "rolebindings", binding("b2", "nope", "bob", kind="Role", namespace="default")
    )
    refused = await refusal_of(house, BOB, Attributes("get", resource="pods", namespace="default", name="x"))
    assert refused.message.endswith(
        ': RBAC: [clusterrole.rbac.authorization.k8s.io "nothere" not found, '
        'role.rbac.authorization.k8s.io "nope" not found]'
    )


@pytest.mark.parametrize(
    ("caller", "allowed"),
    [
        (OPERATOR, True),
        (ADMIN, True),
        (Caller(ADMIN.user, "umbrella"), True),
        (Caller(User("x", groups=("system:masters",)), ""), True),
    ],
)
async def test_groups_of_administrators(house: House, caller: Caller, allowed: bool) -> None:
    # What `system:masters` is in a tenant, its own binding says: it reaches nothing outside of the tenant.
    assert (await house.identity.authorizer.decide(caller, LIST_PODS)).allowed is allowed


async def test_masters_of_a_tenant_are_what_its_binding_makes_them(house: House) -> None:
    master = Caller(User("x", groups=("system:masters",)), "acme")
    assert (await house.identity.authorizer.decide(master, LIST_PODS)).allowed
    await house.delete(f"acme/{GROUP}/clusterrolebindings/cluster-admin")
    assert not (await house.identity.authorizer.decide(master, LIST_PODS)).allowed


@pytest.mark.parametrize(
    ("caller", "in_url", "settled"),
    [
        (BOB, None, "acme"),
        (BOB, "acme", "acme"),
        (OPERATOR, None, "system"),
        (OPERATOR, "acme", "acme"),
        (OPERATOR, "all", "all"),
        (Caller(BOB.user, ""), None, ""),
    ],
)
def test_the_tenant_of_a_request(caller: Caller, in_url: str | None, settled: str) -> None:
    assert settle_tenant(caller, in_url) == settled


def test_another_tenants_url_is_refused_alike_whether_it_exists_or_not() -> None:
    answers = []
    for other in ("umbrella", "no-such", "system", "all"):
        with pytest.raises(StatusError) as caught:
            settle_tenant(BOB, other)
        answers.append(caught.value.status())
    assert answers[0]["code"] == 403
    assert all(answer == answers[0] for answer in answers)


async def test_missing_tenants_and_fresh_ones_answer_the_anonymous_alike(house: House) -> None:
    anonymous = User("system:anonymous", groups=("system:unauthenticated",))
    for question in (
        Attributes("get", "/version", resource_request=False),
        Attributes("get", "/api", resource_request=False),
    ):
        decisions = {
            (await house.identity.authorizer.decide(Caller(anonymous, tenant), question)).allowed
            for tenant in ("acme", "no-such", "")
        }
        assert len(decisions) == 1


ESCALATION = "is attempting to grant RBAC permissions not currently held:\n"


async def may_write(house: House) -> None:
    resources = "roles rolebindings clusterroles clusterrolebindings"
    await house.put("acme", GROUP, "clusterroles", role("rw", rule("create update get", resources, GROUP)))
    await house.put("acme", GROUP, "clusterrolebindings", binding("rw", "rw", "bob"))
    await house.put("acme", GROUP, "roles", role("r1", rule("get list", "pods"), namespace="default"))
    await house.put(
        "acme", GROUP, "rolebindings", binding("b1", "r1", "bob", kind="Role", namespace="default")
    )


async def write_refused(house: House, plural: str, namespace: str, new: dict[str, Any]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await house.identity.authorizer.check_role_write(BOB, plural, namespace, new, None)
    return caught.value


async def test_nobody_grants_more_than_they_hold(house: House) -> None:
    await may_write(house)
    new = role(
        "q",
        rule("get list delete", "pods nodes"),
        rule("get", "*", "apps", resourceNames=["a", "b"]),
        namespace="default",
    )
    refused = await write_refused(house, "roles", "default", new)
    assert refused.code == 403
    assert refused.message == (
        'roles.rbac.authorization.k8s.io "q" is forbidden: user "bob" (groups=["devs" "ops" '
        f'"system:authenticated"]) {ESCALATION}'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list" "delete"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:["apps"], Resources:["*"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:["apps"], Resources:["*"], ResourceNames:["b"], Verbs:["get"]}'
    )
    held = role("q", rule("get", "pods"), namespace="default")
    await house.identity.authorizer.check_role_write(BOB, "roles", "default", held, None)
    await house.identity.authorizer.check_role_write(ADMIN, "roles", "default", new, None)


async def test_binding_needs_the_roles_rights(house: House) -> None:
    await may_write(house)
    refused = await write_refused(house, "clusterrolebindings", "", binding("q", "cluster-admin", "bob"))
    assert refused.message.endswith(
        f'{ESCALATION}{{APIGroups:["*"], Resources:["*"], Verbs:["*"]}}\n{{NonResourceURLs:["*"], Verbs:["*"]}}'
    )
    refused = await write_refused(
        house, "rolebindings", "default", binding("q", "nosuch", "bob", namespace="default")
    )
    assert (refused.code, refused.message) == (
        404,
        'rolebindings.rbac.authorization.k8s.io "nosuch" not found',
    )
    own = binding("q", "r1", "eve", kind="Role", namespace="default")
    await house.identity.authorizer.check_role_write(BOB, "rolebindings", "default", own, None)


async def test_binding_is_allowed_to_who_may_bind(house: House) -> None:
    await may_write(house)
    bind = rule("bind", "clusterroles", GROUP, resourceNames=["view"])
    await house.put("acme", GROUP, "clusterroles", role("binder", bind))
    await house.put("acme", GROUP, "clusterrolebindings", binding("binder", "binder", "bob"))
    new = binding("q", "view", "eve", namespace="default")
    await house.identity.authorizer.check_role_write(BOB, "rolebindings", "default", new, None)
    refused = await write_refused(
        house, "rolebindings", "default", binding("q", "edit", "eve", namespace="default")
    )
    assert refused.code == 403


async def test_aggregation_needs_full_authority(house: House) -> None:
    await may_write(house)
    selecting = role("qa", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    refused = await write_refused(house, "clusterroles", "", selecting)
    assert refused.message == (
        'clusterroles.rbac.authorization.k8s.io "qa" is forbidden: must have cluster-admin privileges to use the '
        "aggregationRule"
    )


async def test_roles_that_are_not_there_are_told_with_what_is_lacking(house: House) -> None:
    await may_write(house)
    new = role("q", rule("delete", "pods"), namespace="default")
    await house.put("acme", GROUP, "clusterrolebindings", binding("d1", "nothere", "bob"))
    refused = await write_refused(house, "roles", "default", new)
    assert refused.message.endswith(
        '; resolution errors: [roles.rbac.authorization.k8s.io "nothere" not found]'
    )
    await house.put("acme", GROUP, "clusterrolebindings", binding("d2", "nope", "bob"))
    await house.put("acme", GROUP, "clusterrolebindings", binding("d3", "nope", "bob"))
    refused = await write_refused(house, "roles", "default", new)
    assert refused.message.endswith(
        '; resolution errors: [[roles.rbac.authorization.k8s.io "nothere" not found, '
        'roles.rbac.authorization.k8s.io "nope" not found]]'
    )


async def test_who_may_escalate_one_role_may_not_make_another(house: House) -> None:
    await may_write(house)
    escalate = rule("escalate", "clusterroles", GROUP, resourceNames=["q"])
    await house.put("acme", GROUP, "clusterroles", role("escalator", escalate))
    await house.put("acme", GROUP, "clusterrolebindings", binding("escalator", "escalator", "bob"))
    strong = role("q", rule("*", "*"))
    check = house.identity.authorizer.check_role_write
    await check(BOB, "clusterroles", "", strong, role("q"))
    for new, old in ((role("p", rule("*", "*")), role("p")), (strong, None)):  # a new one has no name yet
        with pytest.raises(StatusError, match="is attempting to grant"):
            await check(BOB, "clusterroles", "", new, old)


async def test_who_may_bind_in_one_namespace_may_not_in_another(house: House) -> None:
    await may_write(house)
    bind = rule("bind", "clusterroles", GROUP)
    await house.put("acme", GROUP, "roles", role("binder", bind, namespace="default"))
    await house.put(
        "acme", GROUP, "rolebindings", binding("binder", "binder", "bob", kind="Role", namespace="default")
    )
    check = house.identity.authorizer.check_role_write
    await check(BOB, "rolebindings", "default", binding("q", "edit", "eve", namespace="default"), None)
    for plural, place in (("rolebindings", "other"), ("clusterrolebindings", "")):
        with pytest.raises(StatusError, match="is attempting to grant"):
            await check(BOB, plural, place, binding("q", "edit", "eve", namespace=place), None)


async def test_housekeeping_on_a_powerful_role_is_no_escalation(house: House) -> None:
    await may_write(house)
    old = role("strong", rule("*", "*"))
    new = role("strong", rule("*", "*"))
    new["metadata"]["finalizers"] = ["x/y"]
    await house.identity.authorizer.check_role_write(BOB, "clusterroles", "", new, old)
    new["metadata"]["labels"] = {"a": "b"}
    with pytest.raises(StatusError):
        await house.identity.authorizer.check_role_write(BOB, "clusterroles", "", new, old)


async def test_impersonation_takes_every_part_that_is_asked_for(house: House) -> None:
    headers = [
        ("Impersonate-User", "alice"),
        ("impersonate-group", "g1"),
        ("Impersonate-Extra-acme.com%2Fproject", "p"),
        ("Impersonate-Uid", "77"),
    ]
    found = await house.identity.authorizer.impersonate(ADMIN, headers, "acme", LIST_PODS)
    assert found == Caller(
        User("alice", "77", ("g1", "system:authenticated"), {"acme.com/project": ("p",)}),
        "acme",
        impersonated=True,
        constraint="impersonate:user-info",
    )


async def test_impersonating_a_service_account_brings_its_groups(house: House) -> None:
    headers = {"Impersonate-User": "system:serviceaccount:default:x"}
    found = await house.identity.authorizer.impersonate(ADMIN, headers, "acme", LIST_PODS)
    assert found.user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )


async def test_who_may_not_impersonate_is_refused(house: House) -> None:
    with pytest.raises(StatusError) as caught:
        await house.identity.authorizer.impersonate(BOB, {"Impersonate-User": "alice"}, "acme", LIST_PODS)
    assert caught.value.message == (
        'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" at the '
        "cluster scope"
    )


async def test_groups_without_a_user_make_no_sense(house: House) -> None:
    with pytest.raises(StatusError) as caught:
        await house.identity.authorizer.impersonate(ADMIN, {"Impersonate-Group": "g1"}, "acme", LIST_PODS)
    assert caught.value.code == 400
    assert caught.value.message == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g1"}, '
        "Extra:map[string][]string(nil)} without impersonating a user name"
    )


async def test_an_operator_who_impersonates_in_a_tenant_is_no_operator_any_more(house: House) -> None:
    headers = [("Impersonate-User", "alice"), ("Impersonate-Group", "system:masters")]
    found = await house.identity.authorizer.impersonate(OPERATOR, headers, "acme", LIST_PODS)
    assert (found.tenant, found.system) == ("acme", False)
    with pytest.raises(StatusError):
        settle_tenant(found, "umbrella")


async def test_without_headers_the_caller_stays(house: House) -> None:
    assert await house.identity.authorizer.impersonate(BOB, {"Accept": "x"}, "acme", LIST_PODS) is BOB


async def test_what_changes_while_a_policy_is_read_counts(house: House) -> None:
    authorizer = house.identity.authorizer
    real = house.store.range

    async def slow(prefix: str, **options: Any) -> Any:
        page = await real(prefix, **options)
        if prefix.endswith("/rolebindings/"):
            await house.put("acme", GROUP, "clusterrolebindings", binding("late", "cluster-admin", "bob"))
        return page

    house.store.range = slow  # type: ignore[method-assign]
    authorizer.forget("acme")
    assert (await authorizer.decide(BOB, LIST_PODS)).allowed
    house.store.range = real  # type: ignore[method-assign]
    assert (await authorizer.decide(BOB, LIST_PODS)).allowed


async def test_requests_that_come_together_read_a_policy_once(house: House) -> None:
    authorizer, real, read = house.identity.authorizer, house.store.range, []

    async def counted(prefix: str, **options: Any) -> Any:
        read.append(prefix)
        return await real(prefix, **options)

    house.store.range = counted  # type: ignore[method-assign]
    authorizer.forget("acme")
    first, *others = [asyncio.create_task(authorizer.decide(BOB, LIST_PODS)) for _ in range(20)]
    await asyncio.sleep(0)
    first.cancel()
    assert not any(decision.allowed for decision in await asyncio.gather(*others))
    once = 4
    assert len(read) <= 2 * once


async def test_requests_that_come_together_learn_together_that_a_policy_cannot_be_read(house: House) -> None:
    authorizer, read = house.identity.authorizer, []

    async def broken(prefix: str, **_: Any) -> Any:
        read.append(prefix)
        await asyncio.sleep(0)
        raise StoreError("the disk is gone")

    house.store.range = broken  # type: ignore[method-assign]
    authorizer.forget("acme")
    asked = [authorizer.decide(BOB, LIST_PODS) for _ in range(20)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found] == [StoreError] * 20
    assert len(read) == 1


async def test_a_large_policy_is_read_in_turns_with_other_tasks(house: House) -> None:
    for number in range(20):
        subjects = [{"kind": "User", "name": f"user-{number}-{each}"} for each in range(500)]
        body = {
            "metadata": {"name": f"b{number}"},
            "subjects": subjects,
            "roleRef": {"kind": "ClusterRole", "name": "view"},
        }
        await house.put("acme", GROUP, "clusterrolebindings", body)
    house.identity.authorizer.forget("acme")
    turns = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_reader, "rest", counting(turns))
        await house.identity.authorizer.decide(BOB, LIST_PODS)
    assert sum(turns) >= 4


async def test_an_impersonation_of_many_groups_lets_other_tasks_run(house: House) -> None:
    turns: list[bool] = []
    headers = [("Impersonate-User", "x"), *(("Impersonate-Group", f"g{number}") for number in range(200))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(impersonation, "rest", counting(turns))
        await house.identity.authorizer.impersonate(ADMIN, headers, "acme")
    assert sum(turns) >= 40


def counting(turns: list[bool]) -> Callable[[Budget], Awaitable[None]]:
    """A `rest` that records whether it lets other tasks run."""

    async def rest(budget: Budget) -> None:
        turns.append(budget.piece_ended())

    return rest


async def test_a_change_costs_no_reading(house: House) -> None:
    authorizer = house.identity.authorizer
    await authorizer.decide(BOB, LIST_PODS)

    async def unreadable(*_: Any, **__: Any) -> Any:
        raise AssertionError("the policy is read again")

    house.store.range = unreadable  # type: ignore[method-assign]
    await house.put("acme", GROUP, "clusterroles", role("lister", rule("list", "pods")))
    await house.put("acme", GROUP, "clusterrolebindings", binding("b", "lister", "bob"))
    assert (await authorizer.decide(BOB, LIST_PODS)).allowed
    await house.put("acme", GROUP, "clusterroles", role("lister", rule("get", "pods")))
    assert not (await authorizer.decide(BOB, LIST_PODS)).allowed


async def acting(
    house: House, caller: Caller, headers: list[tuple[str, str]], asked: Attributes
) -> Caller | None:
    """Return whom the caller may act as; None: it may not."""
    try:
        return await house.identity.authorizer.impersonate(caller, headers, "acme", asked)
    except StatusError as error:
        return None if error.code == 403 else caller


def may(name: str, *rules: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [("clusterroles", role(name, *rules)), ("clusterrolebindings", binding(name, name, "bob"))]


CONSTRAINED = "authentication.k8s.io"
PODS_ONLY = rule("impersonate-on:user-info:list impersonate-on:arbitrary-node:list", "pods")
USERS = rule("impersonate:user-info", "users groups userextras/acme.io/a userextras/plain", CONSTRAINED)


@pytest.mark.parametrize(
    ("headers", "asked", "allowed"),
    [
        ([("Impersonate-User", "alice")], LIST_PODS, True),
        ([("Impersonate-User", "alice")], Attributes("get", resource="pods"), False),
        ([("Impersonate-User", "alice"), ("Impersonate-Group", "g")], LIST_PODS, True),
        ([("Impersonate-User", "alice"), ("Impersonate-Group", "system:masters")], LIST_PODS, False),
        ([("Impersonate-User", "alice"), ("Impersonate-Group", "")], LIST_PODS, False),
        ([("Impersonate-User", "alice"), ("Impersonate-Uid", "7")], LIST_PODS, False),
        ([("Impersonate-User", "alice"), ("Impersonate-Extra-acme.io%2Fa", "x")], LIST_PODS, True),
        ([("Impersonate-User", "alice"), ("Impersonate-Extra-acme.io%2Fa", "")], LIST_PODS, False),
        ([("Impersonate-User", "alice"), ("Impersonate-Extra-plain", "x")], LIST_PODS, False),
        ([("Impersonate-User", "system:serviceaccount:default:x")], LIST_PODS, False),
        ([("Impersonate-User", "system:node:n1")], LIST_PODS, False),
    ],
)
async def test_constrained_impersonation_keeps_to_what_is_granted(
    house: House, headers: list[tuple[str, str]], asked: Attributes, allowed: bool
) -> None:
    for plural, body in may("as-users", PODS_ONLY, USERS):
        await house.put("acme", GROUP, plural, body)
    found = await acting(house, BOB, headers, asked)
    assert (found.user.name if found else None) == (headers[0][1] if allowed else None)


@pytest.mark.parametrize(("node", "allowed"), [("n1", True), ("n2", False)])
async def test_an_account_may_be_allowed_to_act_as_its_own_node(
    house: House, node: str, allowed: bool
) -> None:
    name = "system:serviceaccount:kube-system:agent"
    extra = {"authentication.kubernetes.io/node-name": ("n1",)}
    agent = Caller(User(name, groups=("system:authenticated",), extra=extra), "acme")
    rules = (
        rule("impersonate-on:associated-node:list", "pods"),
        rule("impersonate:associated-node", "nodes", CONSTRAINED),
    )
    await house.put("acme", GROUP, "clusterroles", role("as-node", *rules))
    await house.put("acme", GROUP, "clusterrolebindings", binding("as-node", "as-node", name))
    found = await acting(house, agent, [("Impersonate-User", f"system:node:{node}")], LIST_PODS)
    assert (found.user.groups if found else None) == (
        ("system:nodes", "system:authenticated") if allowed else None
    )


async def test_names_are_told_as_go_quotes_them(house: House) -> None:
    odd = Caller(User('a"b\\c\n\x1b\u200b\udcff', groups=()), "acme")
    refused = await refusal_of(house, odd, LIST_PODS)
    assert r'User "a\"b\\c\n\x1b\u200b\udcff" cannot list' in refused.message
    refused.message.encode()


@pytest.mark.parametrize(
    ("group", "rules", "allowed"),
    [
        ("vcsync:tenant-admins", [rule("impersonate", "users groups")], False),
        ("vcsync:tenant-admins", [rule("impersonate", "*"), rule("get", "*", "*")], False),
        ("vcsync:whatever-comes-later", [rule("impersonate", "users groups")], False),
        ("devs", [rule("impersonate", "users groups")], True),
        ("system:masters", [rule("impersonate", "users groups")], True),  # counts for nothing in a tenant
        ("vcsync:tenant-admins", [rule("*", "*", "*")], True),
    ],
)
async def test_the_right_to_act_as_any_group_makes_nobody_an_administrator(
    house: House, group: str, rules: list[dict[str, Any]], allowed: bool
) -> None:
    await house.put("acme", GROUP, "clusterroles", role("actor", *rules))
    await house.put("acme", GROUP, "clusterrolebindings", binding("actor", "actor", "bob"))

    found = await acting(house, BOB, [("Impersonate-User", "x"), ("Impersonate-Group", group)], LIST_PODS)

    assert (found is not None) == allowed


async def test_impersonation_headers_that_are_no_text_are_refused(house: House) -> None:
    with pytest.raises(StatusError, match="UTF-8"):
        await house.identity.authorizer.impersonate(ADMIN, {"Impersonate-User": "\udcff"}, "acme", LIST_PODS)


async def test_objects_that_cannot_be_read_grant_nothing_and_keep_nothing_from_others(house: House) -> None:
    await house.put("acme", GROUP, "clusterroles", role("reader", rule("list", "pods")))
    await house.put("acme", GROUP, "clusterrolebindings", binding("readers", "reader", "bob"))
    for name, rules in (("number", 5), ("texts", ["x"]), ("verbs", [{"verbs": 5}])):
        await house.put("acme", GROUP, "clusterroles", {"metadata": {"name": name}, "rules": rules})
    await house.put("acme", GROUP, "clusterrolebindings", {"metadata": {"name": "odd"}, "subjects": 5})

    await house.identity.authorizer.authorize(BOB, LIST_PODS)  # all of them are read

    await house.put("acme", GROUP, "clusterroles", {"metadata": {"name": "reader"}, "rules": 5})
    assert (await refusal_of(house, BOB, LIST_PODS)).code == 403  # the change is followed


async def test_custom_objects_of_the_group_are_no_roles(house: House) -> None:
    await house.put("acme", GROUP, "clusterrolebindings", binding("readers", "reader", "bob"))
    assert (await refusal_of(house, BOB, LIST_PODS)).code == 403

    await house.put("acme", f"custom:{GROUP}", "clusterroles", role("reader", rule("list", "pods")))

    assert (await refusal_of(house, BOB, LIST_PODS)).code == 403
