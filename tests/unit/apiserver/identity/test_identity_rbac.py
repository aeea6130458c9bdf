"""Rules of RBAC."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.authorization import rbac
from vcsync.apiserver.authorization.rbac import (
    FULL_AUTHORITY,
    Rule,
    allows,
    compact,
    missing,
    parse_rules,
    url_covers,
)
from vcsync.apiserver.authorization.rule_index import rule_index
from vcsync.apiserver.request.caller import Attributes
from vcsync.objects.budget import NO_LIMIT, Budget, BudgetExceeded


def lacking(held: Iterable[Rule], wanted: Iterable[Rule], steps: int = NO_LIMIT) -> list[Rule]:
    found, _ = asyncio.run(missing(held, wanted, Budget("the comparison", steps)))
    return found


PODS = Rule(("get", "list"), ("",), ("pods",))


def asked(verb: str, resource: str, group: str = "", name: str = "") -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, group=group, resource=plural, subresource=subresource, name=name)


@pytest.mark.parametrize(
    ("rule", "question", "allowed"),
    [
        (PODS, asked("get", "pods"), True),
        (PODS, asked("delete", "pods"), False),
        (PODS, asked("get", "pods/log"), False),
        (PODS, asked("get", "secrets"), False),
        (PODS, asked("get", "pods", "metrics.k8s.io"), False),
        (Rule(("*",), ("*",), ("*",)), asked("explode", "things/parts", "acme.io"), True),
        (Rule(("*",), ("*",), ("*",)), Attributes("get", "/metrics", resource_request=False), False),
        (Rule(("get",), ("",), ("*",)), asked("get", "pods/log"), True),
        (Rule(("get",), ("",), ("pods/*",)), asked("get", "pods/log"), False),
        (Rule(("get",), ("*",), ("*/scale",)), asked("get", "deployments/scale", "apps"), True),
        (Rule(("get",), ("*",), ("*/scale",)), asked("get", "deployments", "apps"), False),
        (Rule(("get",), ("*",), ("*/scale",)), asked("get", "deployments/status", "apps"), False),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), asked("get", "pods", name="b"), True),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), asked("get", "pods", name="c"), False),
        (Rule(("list",), ("",), ("pods",), ("a",)), asked("list", "pods"), False),
        (Rule(("get",), urls=("/healthz",)), Attributes("get", "/healthz", resource_request=False), True),
        (Rule(("get",), urls=("/api/*",)), Attributes("get", "/api/v1", resource_request=False), True),
        (Rule(("get",), urls=("/api/*",)), Attributes("get", "/apis", resource_request=False), False),
        (Rule(("get",), urls=("*",)), Attributes("get", "/anything", resource_request=False), True),
        (Rule(("get",), urls=("*",)), Attributes("post", "/anything", resource_request=False), False),
        (Rule(("get",), ("",), ("pods",)), Attributes("get", resource=""), False),
    ],
)
def test_a_rule_allows_what_it_names(rule: Rule, question: Attributes, allowed: bool) -> None:
    assert allows(rule, question) is allowed


words = st.sampled_from(["a", "b", "c", "*"])
plain = st.sampled_from(["a", "b", "c"])
some = st.lists(words, min_size=1, max_size=3).map(tuple)
resources = st.lists(st.sampled_from(["p", "q", "p/x", "q/x", "*/x", "*"]), min_size=1, max_size=3).map(tuple)
names = st.lists(plain, max_size=2).map(tuple)
resource_rules = st.builds(Rule, some, some, resources, names)
url_rules = st.builds(
    Rule, some, urls=st.lists(st.sampled_from(["/a", "/a/*", "/b", "*"]), min_size=1).map(tuple)
)
rules = st.one_of(resource_rules, url_rules)
questions = st.one_of(
    st.builds(
        Attributes,
        verb=plain,
        group=plain,
        resource=st.sampled_from(["p", "q"]),
        subresource=st.sampled_from(["", "x"]),
        name=st.sampled_from(["", "a", "b"]),
    ),
    st.builds(
        Attributes,
        verb=plain,
        path=st.sampled_from(["/a", "/a/b", "/b", "/c"]),
        resource_request=st.just(False),
    ),
)


@given(st.lists(rules, max_size=3), st.lists(rules, max_size=3), questions)
def test_what_is_covered_grants_nothing_new(
    held: list[Rule], wanted: list[Rule], question: Attributes
) -> None:
    if not lacking(held, wanted) and any(allows(rule, question) for rule in wanted):
        assert any(allows(rule, question) for rule in held)


@given(st.lists(st.lists(rules, max_size=3), max_size=5), questions)
def test_the_index_finds_the_first_role_that_allows(roles: list[list[Rule]], question: Attributes) -> None:
    found = (number for number, held in enumerate(roles) if any(allows(rule, question) for rule in held))
    assert rule_index(roles).first(question) == next(found, None)


@given(st.lists(rules, max_size=3), st.lists(rules, max_size=3))
def test_missing_permissions_are_those_that_no_rule_covers(held: list[Rule], wanted: list[Rule]) -> None:
    single = [atom for rule in wanted for atom in rbac._atoms(rule)]
    assert lacking(held, wanted) == [
        atom for atom in single if not any(rbac._covers(rule, atom) for rule in held)
    ]


@given(st.lists(rules, max_size=4))
def test_everybody_covers_what_they_hold_and_full_authority_covers_all(held: list[Rule]) -> None:
    assert lacking(held, held) == []
    assert lacking(FULL_AUTHORITY, held) == []


@given(st.lists(rules, max_size=4), questions)
def test_compact_rules_allow_the_same(given_rules: list[Rule], question: Attributes) -> None:
    before = any(allows(rule, question) for rule in given_rules)
    assert any(allows(rule, question) for rule in compact(given_rules)) is before


def test_a_huge_role_is_not_taken_apart() -> None:
    many = tuple(str(number) for number in range(1000))
    with pytest.raises(BudgetExceeded, match="more than"):
        lacking([Rule(("*",), ("*",), ("*",), names=("a",))], [Rule(many, ("",), many, ("a",))], steps=1000)


def test_rules_with_null_lists_are_read() -> None:
    assert parse_rules([{"verbs": ["get"], "apiGroups": None, "nonResourceURLs": ["/x"]}]) == (
        Rule(("get",), urls=("/x",)),
    )
    assert parse_rules(None) == ()


def test_a_rule_is_told_as_the_real_server_does() -> None:
    rule = Rule(("get", "list"), ("apps",), ("*",), ("a",))
    assert str(rule) == '{APIGroups:["apps"], Resources:["*"], ResourceNames:["a"], Verbs:["get" "list"]}'
    assert str(Rule(("get",), urls=("/metrics",))) == '{NonResourceURLs:["/metrics"], Verbs:["get"]}'


@pytest.mark.parametrize(
    ("pattern", "url", "covered"),
    [("/a*", "/ab", True), ("/a", "/a/", False), ("*", "/x", True), ("/a/*", "/a", False)],
)
def test_url_patterns(pattern: str, url: str, covered: bool) -> None:
    assert url_covers(pattern, url) is covered
