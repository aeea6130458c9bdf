"""The headers that name a user to an aggregated API server: exactly that user, or none."""

import string
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.aggregator.remote_user import CHECKER, remote_user_headers


def test_a_user_has_a_header_for_each_part():
    user = User("jane", "u-1", ("a", "b"), {"example.com/Scopes": ["x", "y"], "k": []})
    assert remote_user_headers(user) == [
        ("X-Remote-User", "jane"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Uid", "u-1"),
        ("X-Remote-Extra-example.com%2F%53copes", "x"),
        ("X-Remote-Extra-example.com%2F%53copes", "y"),
    ]
    assert remote_user_headers(CHECKER) == [
        ("X-Remote-User", "system:kube-aggregator"),
        ("X-Remote-Group", "system:masters"),
    ]


@pytest.mark.parametrize(
    "user",
    [
        User(""),
        User(" jane"),
        User("jane "),
        User("ja\r\nX-Remote-Group: system:masters"),
        User("ja\x00ne"),
        User("jane", groups=("",)),
        User("jane", groups=("a\n",)),
        User("jane", "u\t1"),
        User("jane", extra={"": ["a"]}),
        User("jane", extra={"a": [" a"]}),
        User("jane", extra={"a": ["a\u0085"]}),
    ],
)
def test_a_user_that_would_arrive_as_another_one_is_refused(user):
    with pytest.raises(StatusError) as caught:
        remote_user_headers(user)
    assert caught.value.code == 403


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
_TOKEN = set(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")


@given(
    _TEXTS, st.lists(_TEXTS, max_size=2), st.dictionaries(_TEXTS, st.lists(_TEXTS, max_size=2), max_size=2)
)
def test_a_server_reads_the_same_user(name, groups, extra):
    """As kube's `pkg/authentication/request/headerrequest` reads it: keys in lower case, then decoded, values trimmed."""
    try:
        headers = remote_user_headers(User(name, "", tuple(groups), extra))
    except StatusError:
        return
    read: dict[str, list[str]] = {}
    for header, value in headers:
        assert set(header) <= _TOKEN
        assert "\n" not in value
        assert "\r" not in value
        read.setdefault(header.lower(), []).append(value.strip(" \t"))
    prefix = "x-remote-extra-"
    assert read.pop("x-remote-user") == [name]
    assert read.pop("x-remote-group", []) == groups
    found = {unquote(key.removeprefix(prefix)): values for key, values in read.items()}
    assert found == {key: values for key, values in extra.items() if values}
