"""Users with very many bindings and rules: a decision's work is bounded, and administrators can repair the tenant."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest

from tests.unit.apiserver.identity.conftest import House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization import escalation, limits, policy, rbac, rule_index
from vcsync.apiserver.authorization.bootstrap import TENANT_ADMINS
from vcsync.apiserver.authorization.limits import EXCEEDED
from vcsync.apiserver.authorization.policy import Binding, Policy, Subject
from vcsync.apiserver.authorization.rbac import FULL_AUTHORITY, Rule
from vcsync.apiserver.request.caller import Asked, Attributes, Caller

LOW = User("low", groups=("system:authenticated",))
LOW_SUBJECT = (Subject("User", "low"),)
VERBS = tuple(f"v{number}" for number in range(10))
GET_SECRETS = Attributes("get", resource="secrets", namespace="n", name="x")


def many_rules(count: int, resource: str = "pods") -> tuple[Rule, ...]:
    """Rules that allow nothing that tests ask for."""
    return tuple(Rule(("get",), ("",), (resource,), (f"pod-{number}",)) for number in range(count))


def bindings(count: int, role: str = "big", subjects: tuple[Subject, ...] = LOW_SUBJECT) -> Iterator[Binding]:
    return (Binding(f"b{number:05}", "ClusterRole", role, subjects) for number in range(count))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Rule]:
    """The rules that decisions compare with requests."""
    found: list[Rule] = []

    def allows(rule: Rule, asked: Asked) -> bool:
        found.append(rule)
        return rbac.allows(rule, asked)

    monkeypatch.setattr(policy, "allows", allows)
    monkeypatch.setattr(rule_index, "allows", allows)
    return found


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_RULES", 20)
    monkeypatch.setattr(limits, "MAX_VALUES", 200)
    monkeypatch.setattr(limits, "MAX_CHARACTERS", 2000)
    monkeypatch.setattr(policy, "MAX_BINDINGS", 30)


# ---- decisions -------------------------------------------------------------------------


def test_a_role_that_many_bindings_grant_is_looked_at_once(compared: list[Rule]) -> None:
    held = Policy({"big": many_rules(20, "secrets")}, {}, bindings(500))
    assert not held.decide(LOW, GET_SECRETS).allowed
    assert len(compared) == 20


def test_rules_of_other_resources_are_not_looked_at(compared: list[Rule]) -> None:
    rules = (*many_rules(3000), Rule(("get",), ("",), ("*",), ("x",)), Rule(("get",), urls=("/x",)))
    held = Policy({"big": rules}, {}, bindings(1))
    assert held.decide(LOW, GET_SECRETS).allowed
    assert held.decide(LOW, Attributes("get", "/x", resource_request=False)).allowed
    assert compared == list(rules[-2:])


def test_the_first_binding_that_allows_is_named_also_with_an_index() -> None:
    roles = {
        "a": many_rules(policy.FEW_RULES),
        "b": (Rule(("get",), ("",), ("secrets/status",)), Rule(("get",), ("",), ("*/status",))),
        "c": FULL_AUTHORITY,
    }
    made = [Binding(f"of-{role}", "ClusterRole", role, LOW_SUBJECT) for role in ("c", "b", "a")]
    held = Policy(roles, {}, [*made, Binding("again", "ClusterRole", "b", LOW_SUBJECT, "n")])
    assert held.held(LOW, "n").index is not None
    for subresource, role in (("", "c"), ("status", "b")):
        asked = Attributes("get", resource="secrets", subresource=subresource, namespace="n")
        told = held.decide(LOW, asked).reason
        assert (
            told == f'RBAC: allowed by ClusterRoleBinding "of-{role}" of ClusterRole "{role}" to User "low"'
        )


@pytest.mark.usefixtures("small_limits")
def test_rules_beyond_the_limit_grant_nothing_and_the_refusal_says_so(compared: list[Rule]) -> None:
    roles = {f"r{number}": many_rules(5, f"kind{number}") for number in range(40)}
    roles["z"] = (Rule(("get",), ("",), ("secrets",)),)
    made = [Binding(f"b-{role}", "ClusterRole", role, LOW_SUBJECT) for role in roles]
    held = Policy(roles, {}, made)
    refused = held.decide(LOW, GET_SECRETS)
    assert (refused.allowed, refused.reason) == (False, f"RBAC: {EXCEEDED}")
    assert len(compared) == 20


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    "too_large",
    [
        many_rules(21),
        (Rule(("get",), ("",), ("pods",), tuple(str(number) for number in range(200))),),
        (Rule(("get",), ("",), ("p" * 2000,)),),
    ],
    ids=["rules", "values", "characters"],
)
def test_a_role_beyond_the_limit_does_not_take_the_others_with_it(too_large: tuple[Rule, ...]) -> None:
    made = [Binding(role, "ClusterRole", role, LOW_SUBJECT) for role in ("big", "small")]
    held = Policy({"big": too_large, "small": FULL_AUTHORITY}, {}, made)
    assert held.decide(LOW, GET_SECRETS).allowed
    assert held.held(LOW, "n").incomplete


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("count", [31, 300])
def test_bindings_beyond_the_limit_are_not_looked_at(count: int) -> None:
    subjects = (Subject("Group", "system:authenticated"),)
    held = Policy({"small": many_rules(1)}, {}, bindings(count, "small", subjects))
    assert held.held(LOW, "n").incomplete
    assert len(policy._chosen(held._bound(LOW, "n"))[0]) == 30


@pytest.mark.usefixtures("small_limits")
def test_an_administrator_can_repair_a_tenant_whose_users_exceed_the_limits() -> None:
    everybody = (Subject("Group", "system:authenticated"),)
    roles = {f"a{number:05}": many_rules(1) for number in range(25)} | {"cluster-admin": FULL_AUTHORITY}
    # One more binding, beyond the limits, grants the role of administrators.
    made = [Binding(f"a-{role}", "ClusterRole", role, everybody) for role in sorted(roles, reverse=True)]
    admins = Binding(TENANT_ADMINS, "ClusterRole", "cluster-admin", (Subject("Group", TENANT_ADMINS),))
    held = Policy(roles, {}, [*made, admins])
    asked = Attributes("delete", group=policy.GROUP, resource="clusterrolebindings", name="a-a00000")
    assert not held.decide(LOW, asked).allowed
    assert held.decide(User("alice", groups=("system:authenticated", TENANT_ADMINS)), asked).allowed


@pytest.mark.usefixtures("small_limits")
def test_bindings_in_a_namespace_never_take_permissions_at_the_cluster_scope_away() -> None:
    everybody = (Subject("Group", "system:authenticated"),)
    roles = {("n", f"r{number}"): many_rules(1) for number in range(100)}
    made = [Binding(f"a-{name}", "Role", name, everybody, "n") for _, name in roles]
    cluster_wide = Binding("z", "ClusterRole", "reader", LOW_SUBJECT)
    held = Policy({"reader": FULL_AUTHORITY}, roles, [*made, cluster_wide])
    assert held.decide(LOW, GET_SECRETS).allowed


def test_a_subject_is_found_among_many_without_a_search() -> None:
    """The first subject that matches is named, whichever of the user's names it is."""

    class Counted(tuple[Subject, ...]):
        __slots__ = ()
        looked_at = 0

        def __iter__(self) -> Iterator[Subject]:
            for each in super().__iter__():
                Counted.looked_at += 1
                yield each

    others = [Subject("User", f"user-{number}") for number in range(300)]
    subjects = Counted((*others, Subject("Group", "system:authenticated"), Subject("User", "low")))
    held = Policy({"all": FULL_AUTHORITY}, {}, [Binding("b", "ClusterRole", "all", subjects)])
    Counted.looked_at = 0
    assert held.decide(LOW, GET_SECRETS).reason.endswith('to Group "system:authenticated"')
    assert Counted.looked_at == 0


def test_a_refusal_names_some_of_very_many_missing_roles() -> None:
    made = [Binding(f"b{n:04}", "ClusterRole", f"role-{n:04}", LOW_SUBJECT) for n in range(150)]
    told = Policy({}, {}, made).decide(LOW, GET_SECRETS).reason
    assert told.startswith(f'RBAC: [clusterrole.{policy.GROUP} "role-0000" not found, ')
    assert told.endswith("and 50 more]")
    assert told.count("not found") == limits.MAX_NAMED


async def test_a_user_with_very_many_rules_takes_turns_with_others(house: House) -> None:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]} for number in range(2000)]
    await house.put("acme", policy.GROUP, "clusterroles", {"metadata": {"name": "big"}, "rules": rules})
    await house.put(
        "acme",
        policy.GROUP,
        "clusterrolebindings",
        {
            "metadata": {"name": "b"},
            "subjects": [{"kind": "User", "name": "low"}],
            "roleRef": {"kind": "ClusterRole", "name": "big"},
        },
    )
    authorizer = house.identity.authorizer
    await authorizer.policy("acme")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    for _ in range(10):
        await authorizer.decide(Caller(LOW, "acme"), GET_SECRETS)
    other.cancel()
    assert turns >= 10


# ---- what is remembered ----------------------------------------------------------------


def test_users_whom_the_same_bindings_name_share_what_is_remembered() -> None:
    everybody = (Subject("Group", "system:authenticated"),)
    held = Policy({"all": FULL_AUTHORITY}, {}, bindings(1, "all", everybody))
    for number in range(50):
        groups = ("system:authenticated", *(f"group-{number}-{each}" for each in range(100)))
        assert held.decide(User(f"user-{number}", groups=groups), GET_SECRETS).allowed
    assert len(held._remembered) == 1


def test_what_is_remembered_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MAX_REMEMBERED", 100_000)
    made = [
        Binding(f"b-{group}-{role}", "ClusterRole", f"r{role}", (Subject("Group", f"g{group}"),))
        for group in range(200)
        for role in range(20)
    ]
    held = Policy({f"r{role}": FULL_AUTHORITY for role in range(20)}, {}, made)
    for group in range(200):
        assert held.decide(User("low", groups=(f"g{group}",)), GET_SECRETS).allowed
    assert 80_000 < held._remembered.used <= 100_000
    held.set_role("", "r0", None)
    assert held._remembered.used == 0


# ---- escalation ------------------------------------------------------------------------


def write(held: Policy, rules: Iterable[dict[str, list[str]]]) -> escalation.Write:
    body = {"metadata": {"name": "wanted"}, "rules": list(rules)}
    return escalation.Write(held, LOW, "clusterroles", "", body, None)


def refusal(made: escalation.Write) -> str:
    with pytest.raises(StatusError) as caught:
        asyncio.run(escalation.check(made))
    assert caught.value.code == 403
    return caught.value.message


def wide_rule(width: int) -> dict[str, list[str]]:
    """2 kB that grant 100,000 permissions, if the width is 100."""
    return {
        "apiGroups": [f"g{number}" for number in range(width)],
        "resources": [f"r{number}" for number in range(width)],
        "verbs": list(VERBS),
    }


def test_the_search_for_missing_permissions_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "MAX_MISSING", 50)
    monkeypatch.setattr(escalation, "MAX_STEPS", 1200)
    held = Policy({"big": many_rules(1000)}, {}, bindings(1))
    told = refusal(write(held, [wide_rule(100)]))
    assert 'APIGroups:["g0"], Resources:["r0"], Verbs:["v0" "v1"' in told
    assert told.endswith("further permissions were not compared after these 50")


def test_a_refusal_does_not_repeat_a_long_name_a_thousand_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of 700 kB in a role of 1 MB would make a message of 700 MB."""
    monkeypatch.setattr(rbac, "MAX_MISSING_CHARACTERS", 5000)
    resources = [f"r{number}" for number in range(1000)]
    rule = {"apiGroups": ["g" * 1000], "resources": resources, "verbs": ["get"]}
    told = refusal(write(Policy({}, {}, ()), [rule]))
    assert len(told) < 7000
    assert told.endswith("further permissions were not compared after these 5")


def test_a_comparison_that_takes_too_long_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escalation, "MAX_STEPS", 5000)
    almost = tuple(Rule(("v0",), ("g0",), ("r0",), (str(number),)) for number in range(1000))
    held = Policy({"big": almost}, {}, bindings(1))
    wide = {"apiGroups": ["g0"], "resources": ["r0"], "verbs": [f"v{number}" for number in range(100)]}
    told = refusal(write(held, [wide]))
    assert "takes more than 5000 steps" in told
    assert "write several smaller roles" in told


async def test_a_long_comparison_lets_other_tasks_run() -> None:
    held = Policy({"big": (*many_rules(1000), Rule(VERBS, ("*",), ("*",)))}, {}, bindings(1))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await escalation.check(write(held, [wide_rule(20)]))
    other.cancel()
    assert turns >= 3
