"""The headers that make an API server act as a user, and the users for whom there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.impersonation import account_groups, wanted_user, with_group
from vcsync.gateway.impersonation import impersonation_headers

EVERYBODY = "system:authenticated"


def upstream_user(user: User) -> User:
    """Return the user as which a kube-apiserver acts by the headers (`endpoints/filters/impersonation`)."""
    wanted = wanted_user(impersonation_headers(user))
    assert wanted is not None
    groups = wanted.groups
    parts = wanted.name.split(":")
    if wanted.name.startswith("system:serviceaccount:") and len(parts) == 4 and all(parts) and not groups:
        groups = account_groups(parts[2])
    return User(wanted.name, wanted.uid, with_group(groups, EVERYBODY), wanted.extra)


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        (User("alice", groups=(EVERYBODY,)), [("Impersonate-User", "alice")]),
        (
            User("admin", "u1", ("vcsync:tenant-admins", EVERYBODY), {"a/Key-1": ("x", "y")}),
            [
                ("Impersonate-User", "admin"),
                ("Impersonate-Uid", "u1"),
                ("Impersonate-Group", "vcsync:tenant-admins"),
                ("Impersonate-Extra-a%2F%4bey-1", "x"),
                ("Impersonate-Extra-a%2F%4bey-1", "y"),
            ],
        ),
        (
            User("system:serviceaccount:shop:web", groups=(*account_groups("shop"), EVERYBODY)),
            [("Impersonate-User", "system:serviceaccount:shop:web")],
        ),
        (User("system:kube-scheduler", groups=(EVERYBODY,)), [("Impersonate-User", "system:kube-scheduler")]),
        (User("J\u00f6rg M\u00fcller", groups=(EVERYBODY,)), [("Impersonate-User", "J\u00f6rg M\u00fcller")]),
    ],
)
def test_headers(user: User, headers: list[tuple[str, str]]) -> None:
    assert impersonation_headers(user) == headers


@pytest.mark.parametrize(
    "user",
    [
        User("system:anonymous", groups=("system:unauthenticated",)),
        User("system:anonymous", groups=(EVERYBODY,)),
        User("alice", groups=("system:unauthenticated",)),
        User("", groups=(EVERYBODY,)),
        User("alice"),
        User("alice", groups=("system:masters", EVERYBODY)),
        User("alice", groups=("vcsync:tenant-readers", EVERYBODY)),
        User("alice", groups=("VCSYNC:tenant-readers\u200b", EVERYBODY)),
        User("alice", groups=("system:masters\x00", EVERYBODY)),
        User("alice", groups=("\u200bsystem:masters", EVERYBODY)),
        User("alice", groups=("SYSTEM:masters", EVERYBODY)),
        User("alice", groups=("\uff53ystem:masters", EVERYBODY)),
        User("alice", groups=("system:nodes", EVERYBODY)),
        User("alice", groups=("system:serviceaccounts", EVERYBODY)),
        User("alice", groups=("system:serviceaccounts:kube-system", EVERYBODY)),
        User("system:node:n1", groups=("system:nodes", EVERYBODY)),
        # The API server would add groups that the user does not have, or leave out some that it has.
        User("system:serviceaccount:shop:web", groups=(EVERYBODY,)),
        User("system:serviceaccount:shop:web", groups=(*account_groups("other"), EVERYBODY)),
        User("system:serviceaccount:shop:web", groups=(*account_groups("shop"), "more", EVERYBODY)),
        User("alice\r\nImpersonate-Group: system:masters", groups=(EVERYBODY,)),
        User("alice\n", groups=(EVERYBODY,)),
        User(" alice", groups=(EVERYBODY,)),
        User("alice\x00", groups=(EVERYBODY,)),
        User("al\udc80ice", groups=(EVERYBODY,)),
        User("alice", "uid\n1", (EVERYBODY,)),
        User("alice", groups=("", EVERYBODY)),
        User("alice", groups=("dev\r\nX: y", EVERYBODY)),
        User("alice", groups=(EVERYBODY,), extra={"k": ("v\r\n",)}),
        User("alice", groups=(EVERYBODY,), extra={"k": ("",)}),
        User("alice", groups=(EVERYBODY,), extra={"": ("v",)}),
        User("alice", groups=(EVERYBODY,), extra={"k\udc80": ("v",)}),
    ],
)
def test_users_that_are_never_impersonated(user: User) -> None:
    with pytest.raises(StatusError) as caught:
        impersonation_headers(user)
    assert caught.value.code == 403


TEXT = st.text(max_size=12)


@given(
    name=st.one_of(TEXT, TEXT.map("system:serviceaccount:n:{}".format)),
    uid=TEXT,
    groups=st.lists(
        st.one_of(TEXT, st.sampled_from(["system:masters", "dev", *account_groups("n")])), max_size=4
    ),
    extra=st.dictionaries(
        st.text(min_size=1, max_size=12), st.lists(TEXT, min_size=1, max_size=3), max_size=3
    ),
)
def test_the_api_server_acts_as_exactly_that_user_or_not_at_all(
    name: str, uid: str, groups: list[str], extra: dict[str, list[str]]
) -> None:
    user = User(
        name, uid, (*dict.fromkeys(groups), EVERYBODY), {key: tuple(found) for key, found in extra.items()}
    )
    try:
        acted = upstream_user(user)
    except StatusError:
        return
    assert (acted.name, acted.uid, acted.extra) == (user.name, user.uid, user.extra)
    assert set(acted.groups) == set(user.groups)


@given(st.text(min_size=1, max_size=20))
def test_no_header_name_has_a_byte_that_header_names_cannot_have(key: str) -> None:
    headers = impersonation_headers(User("alice", groups=(EVERYBODY,), extra={key: ("v",)}))
    name = headers[-1][0]
    assert name.isascii()
    assert all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name)
