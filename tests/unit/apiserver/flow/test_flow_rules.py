"""Classification of requests by FlowSchemas."""

import json

import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.flow import classification as rules
from vcsync.apiserver.request.caller import Attributes

POD = Attributes("get", resource="pods", namespace="default")
NODE = Attributes("list", resource="nodes")
PATH = Attributes("get", path="/healthz/etcd", resource_request=False)
JANE = User("jane", groups=("dev",))
ROBOT = User("system:serviceaccount:ci:robot")


def user(name):
    return {"kind": "User", "user": {"name": name}}


def account(namespace, name):
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}


def resource(**changes):
    return {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], **changes}


@pytest.mark.parametrize(
    ("subject", "rule", "who", "asked", "expected"),
    [
        (user("jane"), resource(), JANE, POD, True),
        (user("*"), resource(), JANE, POD, True),
        (user("john"), resource(), JANE, POD, False),
        ({"kind": "Group", "group": {"name": "dev"}}, resource(), JANE, POD, True),
        ({"kind": "Group", "group": {"name": "*"}}, resource(), ROBOT, POD, True),
        ({"kind": "Group", "group": {"name": "ops"}}, resource(), JANE, POD, False),
        ({"kind": "Group"}, resource(), JANE, POD, False),
        (account("ci", "robot"), resource(), ROBOT, POD, True),
        (account("ci", "*"), resource(), ROBOT, POD, True),
        (account("c", "*"), resource(), ROBOT, POD, False),
        (account("ci", "rob"), resource(), ROBOT, POD, False),
        (user("*"), resource(verbs=["list"]), JANE, POD, False),
        (user("*"), resource(verbs=["list", "get"]), JANE, POD, True),
        (user("*"), resource(apiGroups=["apps"]), JANE, POD, False),
        (user("*"), resource(apiGroups=[""]), JANE, POD, True),
        (user("*"), resource(resources=["pods/status"]), JANE, POD, False),
        (user("*"), resource(namespaces=["kube-system"]), JANE, POD, False),
        (user("*"), resource(), JANE, NODE, False),
        (user("*"), resource(clusterScope=True), JANE, NODE, True),
        (user("*"), resource(clusterScope=True), JANE, PATH, False),
    ],
)
def test_a_request_matches_as_in_kube_apiserver(subject, rule, who, asked, expected):
    spec = {"rules": [{"subjects": [subject], "resourceRules": [rule]}]}
    assert rules.matches(_spec(spec), who, asked) is expected


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["*"], True),
        (["/healthz"], True),
        (["/healthz/*"], True),
        (["/health"], False),
        (["/healthz/etcd"], True),
    ],
)
def test_a_path_matches_below_its_rule(paths, expected):
    rule = {"verbs": ["get"], "nonResourceURLs": paths}
    spec = _spec({"rules": [{"subjects": [user("*")], "nonResourceRules": [rule]}]})
    assert rules.matches(spec, JANE, PATH) is expected


def test_schemas_are_ordered_by_precedence_and_then_by_name():
    found = [
        rules.read_schema(_object(name, {"matchingPrecedence": order}))
        for name, order in (("z", 1), ("b", 2), ("a", 2))
    ]
    assert [each.name for each in rules.ordered(found)] == ["z", "a", "b"]


def test_the_schema_determines_the_flow_distinguisher():
    by = {how: _spec({"distinguisherMethod": {"type": how}}) for how in ("ByUser", "ByNamespace")}
    assert rules.distinguisher(by["ByUser"], JANE, POD) == "jane"
    assert rules.distinguisher(by["ByNamespace"], JANE, POD) == "default"
    assert rules.distinguisher(_spec({}), JANE, POD) == ""


def _object(name, spec):
    return json.dumps({"metadata": {"name": name}, "spec": spec}).encode()


def _spec(spec):
    return rules.read_schema(_object("s", spec)).spec
