"""Audit policies: the first matching rule, its decision, and errors of invalid files."""

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.audit.policy import PolicyError, read
from vcsync.apiserver.request.audit_trail import Level
from vcsync.apiserver.request.caller import Attributes

JANE = User("jane", groups=("dev", "system:authenticated"))


def policy(*rules, **more):
    return read(
        yaml.safe_dump(
            {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}
        ).encode()
    )


def of(rule, asked, user=JANE):
    return policy({"level": "Request", **rule}).decide(user, asked).level == Level.REQUEST


def resource(plural, sub="", group="", namespace="n", name="", verb="get"):
    return Attributes(verb, group=group, resource=plural, subresource=sub, namespace=namespace, name=name)


def path(text):
    return Attributes("get", path=text, resource_request=False)


PODS, LOG = resource("pods"), resource("pods", "log")
MATCHES = [
    # rule, request, whether it matches
    ({}, PODS, True),
    ({}, path("/healthz"), True),
    ({"users": ["jane"]}, PODS, True),
    ({"users": ["joe"]}, PODS, False),
    ({"userGroups": ["ops", "dev"]}, PODS, True),
    ({"userGroups": ["ops"]}, PODS, False),
    ({"verbs": ["list", "get"]}, PODS, True),
    ({"verbs": ["list"]}, PODS, False),
    ({"namespaces": ["n"]}, PODS, True),
    ({"namespaces": ["m"]}, PODS, False),
    ({"namespaces": [""]}, resource("nodes", namespace=""), True),
    ({"namespaces": ["n"]}, path("/api"), False),
    ({"resources": [{"group": ""}]}, LOG, True),
    ({"resources": [{"group": "apps"}]}, PODS, False),
    ({"resources": [{"group": "*"}]}, resource("deployments", group="apps"), True),
    ({"resources": [{"group": "", "resources": ["pods"]}]}, PODS, True),
    ({"resources": [{"group": "", "resources": ["pods"]}]}, LOG, False),
    ({"resources": [{"group": "", "resources": ["pods/log"]}]}, LOG, True),
    ({"resources": [{"group": "", "resources": ["pods/*"]}]}, LOG, True),
    ({"resources": [{"group": "", "resources": ["*/log"]}]}, LOG, True),
    ({"resources": [{"group": "", "resources": ["*/log"]}]}, PODS, False),
    ({"resources": [{"group": "", "resources": ["*"]}]}, LOG, True),
    ({"resources": [{"group": "", "resources": ["secrets", "configmaps"]}]}, PODS, False),
    (
        {"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]},
        resource("pods", name="a"),
        True,
    ),
    (
        {"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]},
        resource("pods", name="b"),
        False,
    ),
    ({"resources": [{"group": "", "resources": ["pods"]}]}, path("/api"), False),
    ({"nonResourceURLs": ["/healthz*"]}, path("/healthz/etcd"), True),
    ({"nonResourceURLs": ["/healthz"]}, path("/healthz/etcd"), False),
    ({"nonResourceURLs": ["*"]}, path("/metrics"), True),
    ({"nonResourceURLs": ["*"]}, PODS, False),
]


@pytest.mark.parametrize(("rule", "asked", "expected"), MATCHES)
def test_a_rule_matches_if_all_its_fields_match(rule, asked, expected):
    assert of(rule, asked) is expected


def test_the_first_matching_rule_decides_and_the_default_is_none():
    found = policy({"level": "Metadata", "verbs": ["get"]}, {"level": "RequestResponse"})
    assert found.decide(JANE, PODS).level == Level.METADATA
    assert found.decide(JANE, resource("pods", verb="list")).level == Level.REQUEST_RESPONSE
    assert policy({"level": "Metadata", "verbs": ["list"]}).decide(JANE, PODS).level == Level.NONE


def test_rules_for_users_do_not_match_refused_credentials():
    assert not of({"users": ["jane"]}, PODS, None)
    assert not of({"userGroups": ["dev"]}, PODS, None)
    assert of({}, PODS, None)


def test_stages_are_omitted_by_the_policy_and_by_the_rule():
    found = policy({"level": "Metadata", "omitStages": ["ResponseStarted"]}, omitStages=["RequestReceived"])
    assert found.decide(JANE, PODS).omitted == {"RequestReceived", "ResponseStarted"}


@pytest.mark.parametrize(
    ("common", "own", "expected"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
def test_a_rule_overrides_whether_the_policy_omits_managed_fields(common, own, expected):
    rule = {"level": "Request"} | ({} if own is None else {"omitManagedFields": own})
    assert policy(rule, omitManagedFields=common).decide(JANE, PODS).bare is expected


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"levle": "None"}, r"rules\[0\].levle: unknown field; did you mean level\?"),
        ({"level": "Some"}, r"rules\[0\].level: 'Some' must be one of None, Metadata"),
        ({}, r"rules\[0\].level: '' must be one of"),
        (
            {"level": "None", "resources": [{"grp": ""}]},
            r"rules\[0\].resources\[0\].grp: unknown field; did you mean group\?",
        ),
        (
            {"level": "None", "resources": [{"group": "apps/v1"}]},
            r"rules\[0\].resources\[0\].group: 'apps/v1' is no group",
        ),
        ({"level": "None", "resources": [{"resourceNames": ["a"]}]}, "needs resources"),
        ({"level": "None", "nonResourceURLs": ["api"]}, "must begin with '/'"),
        ({"level": "None", "nonResourceURLs": ["/a*b"]}, "only at its end"),
        (
            {"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["n"]},
            "resources or about URLs, not both",
        ),
        ({"level": "None", "omitStages": ["Began"]}, "'Began' must be one of RequestReceived"),
        ({"level": "None", "verbs": "get"}, r"Expected `array \| null`"),
    ],
)
def test_the_error_for_an_invalid_rule_names_the_reason(rule, said):
    with pytest.raises(PolicyError, match=said):
        policy(rule)


@pytest.mark.parametrize(
    "text",
    [b"", b"- a", b"a: [", b"\xff", b"x" * (2**20 + 1), b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []",
     b"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]"],
)  # fmt: skip
def test_files_that_are_not_policies_are_refused(text):
    with pytest.raises(PolicyError):
        read(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(rule=st.dictionaries(st.sampled_from(["level", "users", "verbs", "resources", "namespaces"]), VALUES))
def test_any_rule_is_parsed_or_refused(rule):
    with contextlib.suppress(PolicyError):
        policy(rule).decide(JANE, PODS)
