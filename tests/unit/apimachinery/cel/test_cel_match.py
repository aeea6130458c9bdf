import asyncio

import pytest

from vcsync.apimachinery.cel.authorizing import Decision
from vcsync.apimachinery.cel.conditions import Match, evaluate_conditions
from vcsync.apimachinery.cel.request import Attributes

REQUEST = {
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "requestResource": {"group": "", "version": "v1", "resource": "pods"},
    "name": "one",
    "namespace": "here",
    "operation": "CREATE",
    "userInfo": {"username": "jane"},
    "dryRun": False,
}


THREE_CHECKS = "['x', 'y', 'z'].all(n, authorizer.group('').resource(n).check('get').allowed())"


async def ask(account, check):
    if account == ("broken", "robot"):
        return Decision(False, error="it does not answer")
    return Decision(check.verb == "get", f"because of {check.namespace}/{check.name}{check.path}")


ATTRIBUTES = Attributes(
    "acme", REQUEST, {"metadata": {"name": "one"}, "n": 3}, None, {"metadata": {"name": "here"}}, None, ask
)


def match(*expressions):
    conditions = [{"name": str(at), "expression": each} for at, each in enumerate(expressions)]
    return asyncio.run(evaluate_conditions(conditions, ATTRIBUTES))


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'one' && oldObject == null",
        "request.operation == 'CREATE' && request.userInfo.username == 'jane'",
        "request.dryRun == false && !has(request.subResource)",
        "authorizer.requestResource.check('get').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "authorizer.requestResource.check('get').reason() == 'because of here/one'",
        "authorizer.requestResource.name('two').namespace('there').check('get').reason() == 'because of there/two'",
        "authorizer.path('/x').check('get').reason() == 'because of //x'",
        "authorizer.serviceAccount('broken', 'robot').group('').resource('pods').check('get').errored()",
        "authorizer.group('a').resource('b').subresource('c').fieldSelector('x=y').labelSelector('z').check('get').error() == ''",
        "namespaceObject == null",
    ],
)
def test_requests_match(expression):
    assert match(expression) == Match(True)


@pytest.mark.parametrize(
    ("expressions", "found"),
    [
        (["true", "false", "object.nothing"], Match(False, failed="1")),
        (["object.nothing", "false"], Match(False, failed="1")),
        (
            ["object.nothing == 1"],
            Match(False, error="expression 'object.nothing == 1' resulted in error: no such key: nothing"),
        ),
        (
            ["object.a == 1", "object.b == 1"],
            Match(
                False,
                error="[expression 'object.a == 1' resulted in error: no such key: a, "
                "expression 'object.b == 1' resulted in error: no such key: b]",
            ),
        ),
        (
            ["object.n"],
            Match(False, error="compilation error: must evaluate to bool but got dyn"),
        ),
        (
            ["authorizer.path('').check('get').allowed()"],
            Match(
                False,
                error="expression 'authorizer.path('').check('get').allowed()' resulted in error: path must not be empty",
            ),
        ),
        (
            [THREE_CHECKS],
            Match(
                False,
                error=f"expression '{THREE_CHECKS}' resulted in error: operation cancelled: actual cost limit exceeded",
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_false_goes_before_what_is_not_known(expressions, found):
    assert match(*expressions) == found


def test_no_conditions_match_everything():
    assert match() == Match(True)
