"""A policy that is changed piece by piece answers as one that looks through everything each time."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.policy import GROUP, Policy
from vcsync.apiserver.authorization.policy_reader import apply
from vcsync.apiserver.request.caller import Attributes
from vcsync.apiserver.storage.interface import Change

Kept = dict[tuple[str, str, str], dict[str, Any]]
VERBS, RESOURCES, NAMES, PLACES = ("get", "list"), ("pods", "secrets"), ("a", "b"), ("n1", "n2")
USERS = ("alice", "system:serviceaccount:n1:robot")
GROUPS = ("devs", "ops")


def allowed(kept: Kept, user: User, asked: Attributes) -> bool:
    """The simple model: every binding is asked for every subject, every role for every rule."""
    for (plural, namespace, _), binding in kept.items():
        if not plural.endswith("bindings") or namespace not in ("", asked.namespace):
            continue
        reference = binding["roleRef"]
        where = "" if reference["kind"] == "ClusterRole" else namespace
        role = kept.get((f"{reference['kind'].lower()}s", where, reference["name"]))
        meant = any(_is(user, subject, namespace) for subject in binding["subjects"])
        if role and meant and any(_grants(rule, asked) for rule in role["rules"]):
            return True
    return False


def _is(user: User, subject: dict[str, str], namespace: str) -> bool:
    if subject["kind"] == "ServiceAccount":
        where = subject.get("namespace") or namespace
        return bool(where) and user.name == f"system:serviceaccount:{where}:{subject['name']}"
    return subject["name"] == user.name if subject["kind"] == "User" else subject["name"] in user.groups


def _grants(rule: dict[str, Any], asked: Attributes) -> bool:
    names = rule.get("resourceNames")
    return (
        bool({asked.verb, "*"} & set(rule["verbs"]))
        and bool({asked.resource, "*"} & set(rule["resources"]))
        and "" in rule["apiGroups"]
        and (not names or asked.name in names)
    )


def some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2)


rules = st.builds(
    lambda verbs, resources, names: {
        "verbs": verbs,
        "apiGroups": [""],
        "resources": resources,
        "resourceNames": names,
    },
    some((*VERBS, "*")),
    some((*RESOURCES, "*")),
    st.lists(st.sampled_from(NAMES), max_size=1),
)
subjects = st.one_of(
    st.builds(lambda name: {"kind": "User", "name": name}, st.sampled_from(USERS)),
    st.builds(lambda name: {"kind": "Group", "name": name}, st.sampled_from(GROUPS)),
    st.builds(
        lambda place: {"kind": "ServiceAccount", "name": "robot", "namespace": place},
        st.sampled_from(("", *PLACES)),
    ),
)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str, str, dict[str, Any] | None]:
    plural = draw(st.sampled_from(("roles", "clusterroles", "rolebindings", "clusterrolebindings")))
    namespace = "" if plural.startswith("cluster") else draw(st.sampled_from(PLACES))
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 3)) == 0:
        return plural, namespace, name, None
    body: dict[str, Any] = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
    if plural.endswith("bindings"):
        kinds = ("ClusterRole", "Role") if namespace else ("ClusterRole",)
        body["subjects"] = draw(st.lists(subjects, max_size=3))
        body["roleRef"] = {"kind": draw(st.sampled_from(kinds)), "name": draw(st.sampled_from(NAMES))}
    else:
        body["rules"] = draw(st.lists(rules, max_size=2))
    return plural, namespace, name, body


questions = st.builds(
    Attributes,
    st.sampled_from(VERBS),
    resource=st.sampled_from(RESOURCES),
    namespace=st.sampled_from(("", *PLACES)),
    name=st.sampled_from(("", *NAMES)),
)
users = st.builds(
    lambda name, groups: User(name, groups=tuple(groups)),
    st.sampled_from(USERS),
    st.sets(st.sampled_from(GROUPS)),
)


@settings(max_examples=150)
@given(st.lists(edits(), max_size=14), st.lists(st.tuples(users, questions), max_size=6))
def test_changes_one_by_one_end_where_the_simple_model_is(
    made: list[tuple[str, str, str, dict[str, Any] | None]], asked: list[tuple[User, Attributes]]
) -> None:
    policy, kept = Policy({}, {}, ()), Kept()
    for revision, (plural, namespace, name, body) in enumerate(made, 1):
        value = None if body is None else msgspec.json.encode(body)
        apply(policy, Change(revision, object_key("acme", GROUP, plural, namespace, name), value, None, 1))
        kept.pop((plural, namespace, name), None)
        if body is not None:
            kept[plural, namespace, name] = body
        for user, question in asked:
            assert policy.decide(user, question).allowed is allowed(kept, user, question)


def test_what_is_deleted_leaves_nothing_behind() -> None:
    policy = Policy({}, {}, ())
    binding = {
        "metadata": {"name": "b", "namespace": "n1"},
        "subjects": [{"kind": "User", "name": "alice"}, {"kind": "User", "name": "alice"}],
        "roleRef": {"kind": "ClusterRole", "name": "a"},
    }
    key = object_key("acme", GROUP, "rolebindings", "n1", "b")
    apply(policy, Change(1, key, msgspec.json.encode(binding), None, 1))
    assert policy.grants(User("alice"), "n1")[0].missing
    apply(policy, Change(2, key, None, None, 1))
    assert policy.grants(User("alice"), "n1") == ()
    assert policy._by_subject == {}
