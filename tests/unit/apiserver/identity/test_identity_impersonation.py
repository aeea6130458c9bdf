"""Acting as somebody else: exactly which rights are asked for, in which order, and who comes out of it."""

from collections.abc import Callable

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.impersonation import Worked, impersonated, wanted_user
from vcsync.apiserver.request.caller import Asked, Attributes, Caller, Decision

BOB = Caller(User("bob", groups=("devs",)), "acme")
LIST = Attributes("list", "/p", "g", "", "pods", "log", "ns", "n", selected=(("a", "b"),))
EVERYTHING = Attributes("*", group="*", resource="*")
Refuse = Callable[[Asked], bool]


def nothing(_: Asked) -> bool:
    return False


def legacy_only(asked: Asked) -> bool:
    return asked.verb.startswith("impersonate-on")


class Judge:
    """Allows all but what it is told to refuse, and remembers what it was asked."""

    def __init__(self, refuse: Refuse = nothing) -> None:
        self.refuse = refuse
        self.asked: list[Asked] = []

    async def decide(self, _: Caller, asked: Asked) -> Decision:
        self.asked.append(asked)
        return Decision(not self.refuse(asked))


async def become(
    judge: Judge, wanted: User, caller: Caller = BOB, asked: Asked | None = LIST, worked: Worked | None = None
) -> Caller:
    known = Worked(8) if worked is None else worked
    return await impersonated(judge.decide, caller, wanted, "elsewhere", asked, known)


def on(mode: str) -> Attributes:
    return Attributes(
        f"impersonate-on:{mode}:list", "/p", "g", "", "pods", "log", "ns", "n", selected=(("a", "b"),)
    )


def right(verb: str, what: str, name: str = "", group: str = "", **more: str) -> Attributes:
    return Attributes(verb, group=group, resource=what, name=name, **more)


AUTH = "authentication.k8s.io"


async def test_every_part_of_a_user_is_asked_for() -> None:
    judge = Judge()
    wanted = User("alice", "7", ("g1", "g2"), {"acme.io/a": ("x", "y")})
    found = await become(judge, wanted)
    verb = "impersonate:user-info"
    assert judge.asked == [
        on("user-info"),
        right(verb, "users", "alice", AUTH),
        right(verb, "uids", "7", AUTH),
        right(verb, "groups", "g1", AUTH),
        right(verb, "groups", "g2", AUTH),
        right(verb, "userextras", "x", AUTH, subresource="acme.io/a"),
        right(verb, "userextras", "y", AUTH, subresource="acme.io/a"),
    ]
    user = User("alice", "7", ("g1", "g2", "system:authenticated"), {"acme.io/a": ("x", "y")})
    assert found == Caller(user, "acme", impersonated=True, constraint=verb)


async def test_the_plain_verb_asks_in_the_groups_it_always_had() -> None:
    judge = Judge(legacy_only)
    found = await become(judge, User("alice", "7", ("g1",), {"Any Key": ("",)}))
    assert judge.asked == [
        on("user-info"),
        right("impersonate", "users", "alice"),
        right("impersonate", "uids", "7", AUTH),
        right("impersonate", "groups", "g1"),
        right("impersonate", "userextras", "", AUTH, subresource="Any Key"),
    ]
    assert found.constraint == ""


@pytest.mark.parametrize(
    ("wanted", "modes", "whom", "groups"),
    [
        (
            User("system:serviceaccount:ns:x"),
            ["serviceaccount"],
            right("impersonate:serviceaccount", "serviceaccounts", "x", AUTH, namespace="ns"),
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        (
            User("system:node:n1"),
            ["arbitrary-node"],
            right("impersonate:arbitrary-node", "nodes", "n1", AUTH),
            ("system:nodes", "system:authenticated"),
        ),
        # Names that only begin like those of accounts are users'
        *(
            (
                User(name),
                ["user-info"],
                right("impersonate:user-info", "users", name, AUTH),
                ("system:authenticated",),
            )
            for name in (
                "system:serviceaccount:ns",
                "system:serviceaccount:ns:",
                "system:serviceaccount::x",
                "system:serviceaccount:ns:x:y",
            )
        ),
        (
            User("system:anonymous"),
            ["user-info"],
            right("impersonate:user-info", "users", "system:anonymous", AUTH),
            ("system:unauthenticated",),
        ),
    ],
)
async def test_names_say_what_sort_of_user_is_asked_for(
    wanted: User, modes: list[str], whom: Attributes, groups: tuple[str, ...]
) -> None:
    judge = Judge()
    found = await become(judge, wanted)
    assert judge.asked == [*map(on, modes), whom]
    assert found.user.groups == groups


@pytest.mark.parametrize(
    "wanted",
    [
        User("system:serviceaccount:ns:x", "7"),
        User("system:serviceaccount:ns:x", groups=("g",)),
        User("system:node:n1", extra={"a.io/b": ("c",)}),
    ],
)
async def test_accounts_and_nodes_with_more_than_a_name_take_the_plain_verb(wanted: User) -> None:
    judge = Judge()
    assert (await become(judge, wanted)).constraint == ""
    assert {asked.verb for asked in judge.asked} == {"impersonate"}


async def test_a_named_group_takes_the_place_of_an_accounts_own() -> None:
    wanted = User("system:serviceaccount:ns:x", groups=("g", "system:unauthenticated"))
    found = await become(Judge(), wanted)
    assert found.user.groups == ("g", "system:unauthenticated")


@pytest.mark.parametrize(
    ("name", "node", "associated"),
    [
        ("system:serviceaccount:ns:agent", ("n1",), True),
        ("system:serviceaccount:ns:agent", ("n2",), False),
        ("system:serviceaccount:ns:agent", ("n1", "n2"), False),
        ("system:serviceaccount:ns:agent", (), False),
        ("bob", ("n1",), False),
    ],
)
async def test_an_account_is_asked_first_about_the_node_it_runs_on(
    name: str, node: tuple[str, ...], associated: bool
) -> None:
    extra = {"authentication.kubernetes.io/node-name": node} if node else {}
    judge = Judge()
    found = await become(judge, User("system:node:n1"), Caller(User(name, extra=extra), "acme"))
    mode, asked_for = ("associated-node", "*") if associated else ("arbitrary-node", "n1")
    assert judge.asked == [on(mode), right(f"impersonate:{mode}", "nodes", asked_for, AUTH)]
    assert found.constraint == f"impersonate:{mode}"


async def test_without_a_request_only_the_plain_verb_counts() -> None:
    judge = Judge()
    assert (await become(judge, User("alice"), asked=None)).constraint == ""
    assert judge.asked == [right("impersonate", "users", "alice")]


async def test_what_worked_before_is_asked_for_first() -> None:
    worked = Worked(8)
    await become(Judge(legacy_only), User("alice"), worked=worked)
    judge = Judge(legacy_only)
    await become(judge, User("carol"), worked=worked)
    assert judge.asked == [right("impersonate", "users", "carol")]
    another = Judge()
    await become(another, User("carol"), Caller(User("eve"), "acme"), worked=worked)
    assert another.asked[0] == on("user-info")


async def test_the_first_refusal_is_told() -> None:
    judge = Judge(lambda _: True)
    with pytest.raises(StatusError) as caught:
        await become(judge, User("alice"))
    assert [asked.verb for asked in judge.asked] == ["impersonate-on:user-info:list", "impersonate"]
    assert 'cannot impersonate-on:user-info:list resource "pods/log"' in caught.value.message


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (User("x", groups=("",)), "impersonating the empty string group is not allowed"),
        (User("x", groups=("a", "system:masters")), "impersonating the system:masters group is not allowed"),
        (
            User("x", groups=("system:masters\0",)),
            r'impersonating the "system:masters\x00" group is not allowed',
        ),
        (User("x", groups=("vcsync:any",)), "impersonating the vcsync:any group is not allowed"),
        (User("x", extra={"plain": ("v",)}), "impersonating an invalid key in extra is not allowed"),
        (User("x", extra={"Acme.io/a": ("v",)}), "impersonating an invalid key in extra is not allowed"),
        (User("x", extra={"acme.io/a": ("v", "")}), "impersonating an invalid key in extra is not allowed"),
    ],
)
async def test_constrained_impersonation_has_what_nobody_may_take(wanted: User, told: str) -> None:
    judge = Judge(lambda asked: asked.verb == "impersonate")
    with pytest.raises(StatusError) as caught:
        await become(judge, wanted)
    assert caught.value.message.endswith(f": {told}")
    assert caught.value.code == 403


async def test_groups_of_vcsync_are_for_who_may_do_everything() -> None:
    def refuse(asked: Asked) -> bool:
        return legacy_only(asked) or asked == EVERYTHING

    wanted = User("x", groups=("vcsync:tenant-admins",))
    assert (await become(Judge(legacy_only), wanted)).user.groups[0] == "vcsync:tenant-admins"
    judge = Judge(refuse)
    with pytest.raises(StatusError):
        await become(judge, wanted)
    assert judge.asked[-1] == EVERYTHING


@pytest.mark.parametrize(
    ("caller", "tenant", "system"),
    [
        (Caller(User("op"), "system", system=True), "elsewhere", False),
        (BOB, "acme", False),
    ],
)
async def test_who_impersonates_stays_where_it_may_be(caller: Caller, tenant: str, system: bool) -> None:
    found = await become(Judge(), User("alice"), caller)
    assert (found.tenant, found.system, found.impersonated) == (tenant, system, True)


async def test_an_operator_stays_one_in_the_system_space() -> None:
    operator = Caller(User("op"), "system", system=True)
    found = await impersonated(Judge().decide, operator, User("a"), "system", LIST, Worked(8))
    assert (found.tenant, found.system) == ("system", True)


def test_headers_are_read_in_any_case_and_the_first_name_counts() -> None:
    headers = [
        ("IMPERSONATE-USER", "alice"),
        ("impersonate-user", "bob"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Uid", "2"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Acme.io%2FA", "x"),
        ("impersonate-extra-acme.io%2fa", "y"),
        ("Accept", "z"),
    ]
    assert wanted_user(headers) == User("alice", "1", ("a", "b"), {"acme.io/a": ("x", "y")})
    assert wanted_user([("Accept", "z")]) is None


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (
            [("impersonate-uid", "7")],
            'UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name',
        ),
        (
            [("impersonate-extra-b", "2"), ("impersonate-extra-a", "1"), ("impersonate-extra-a", "3")],
            'Extra:map[string][]string{"a":[]string{"1", "3"}, "b":[]string{"2"}}} without impersonating a user name',
        ),
        (
            [("impersonate-group", "a"), ("impersonate-group", "b")],
            'Groups:[]string{"a", "b"}, Extra:map[string][]string(nil)} without impersonating a user name',
        ),
        (
            [("impersonate-user", "a"), *[("impersonate-group", "g")] * 1000],
            "requested more than 1000 impersonation headers",
        ),
        ([("impersonate-group", "\udcff")], "impersonation headers must be UTF-8"),
    ],
)
def test_headers_that_make_no_sense(headers: list[tuple[str, str]], told: str) -> None:
    with pytest.raises(StatusError) as caught:
        wanted_user(headers)
    assert caught.value.code == 400
    assert caught.value.message.endswith(told)


def test_as_many_headers_as_are_allowed_are_read() -> None:
    found = wanted_user([("impersonate-user", "a"), *[("impersonate-group", "g")] * 255])
    assert found is not None
    assert len(found.groups) == 255
