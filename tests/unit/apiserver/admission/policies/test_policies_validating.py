"""ValidatingAdmissionPolicies, end to end in one process."""

import pytest

MERGE = "application/merge-patch+json"
ONE = "/api/v1/namespaces/default/configmaps/one"


def denial(answer):
    return answer.body["message"].partition("denied request: ")[2]


async def test_denials_have_the_text_of_kube_apiserver(api):
    name = await api.policy({"validations": [{"expression": "object.data.a == 'x'", "message": "not so"}]})
    assert (await api.create(data={"a": "x"})).status == 201
    refused = await api.create("two", data={"a": "y"})
    message = f"ValidatingAdmissionPolicy '{name}' with binding '{name}-0' denied request: not so"
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    assert refused.body["message"] == f'configmaps "two" is forbidden: {message}'
    assert refused.body["details"] == {"name": "two", "kind": "configmaps", "causes": [{"message": message}]}


@pytest.mark.parametrize(
    ("validation", "code", "said"),
    [
        ({"expression": " false "}, 422, "failed expression: false"),
        ({"expression": "false", "reason": "Forbidden"}, 403, "failed expression: false"),
        ({"expression": "false", "reason": "RequestEntityTooLarge"}, 413, "failed expression: false"),
        ({"expression": "false", "messageExpression": "'it is ' + object.data.a"}, 422, "it is x"),
        ({"expression": "false", "messageExpression": "string(object.b)", "message": "plain"}, 422, "plain"),
        (
            {"expression": "object.b"} | {"expression": "object.b == 1"},
            422,
            "expression 'object.b == 1' resulted in error: no such key: b",
        ),
        (
            {"expression": "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))"},
            422,
            (
                "expression 'lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))' resulted in error: "
                "operation cancelled: actual cost limit exceeded"
            ),
        ),
    ],
)
async def test_messages_and_reasons(api, validation, code, said):
    await api.policy({"validations": [validation]})
    refused = await api.create(data={"a": "x"})
    assert (refused.status, denial(refused)) == (code, said)


async def test_policies_without_bindings_and_of_other_tenants_do_not_apply(api):
    name = await api.policy({"validations": [{"expression": "false"}]})
    path = "/api/v1/namespaces/default/configmaps"
    assert (await api("POST", path, {"metadata": {"name": "one"}}, tenant="b")).status == 201
    group = "/apis/admissionregistration.k8s.io/v1"
    await api("DELETE", f"{group}/validatingadmissionpolicybindings/{name}-0")
    api.configurations.forget()
    assert (await api.create()).status == 201


async def test_errors_are_ignored_with_failure_policy_ignore(api):
    await api.policy({"failurePolicy": "Ignore", "validations": [{"expression": "object.b == 1"}]})
    assert (await api.create()).status == 201


async def test_variables_are_evaluated_lazily(api):
    await api.policy(
        {
            "variables": [
                {"name": "bad", "expression": "object.nothing"},
                {"name": "low", "expression": "int(object.data.n)"},
                {"name": "fits", "expression": "variables.low < 3"},
            ],
            "validations": [
                {
                    "expression": "variables.fits || variables.bad == 1",
                    "messageExpression": "string(variables.low)",
                }
            ],
        }
    )
    assert (await api.create(data={"n": "2"})).status == 201
    refused = await api.create("two", data={"n": "5"})
    assert 'composited variable "bad" fails to evaluate: no such key: nothing' in denial(refused)


async def test_match_conditions_decide_whether_a_policy_is_evaluated(api):
    conditions = [{"name": "x", "expression": "object.data.a == 'x'"}]
    await api.policy({"matchConditions": conditions, "validations": [{"expression": "false"}]})
    assert (await api.create(data={"a": "y"})).status == 201
    assert denial(await api.create("two", data={"a": "x"})) == "failed expression: false"
    assert denial(await api.create("two")).endswith("no such key: data")


async def test_warn_and_audit_actions_do_not_refuse_the_write(api):
    name = await api.policy(
        {"validations": [{"expression": "false", "message": "no"}]}, {"validationActions": ["Warn", "Audit"]}
    )
    made = await api.create()
    about = f"ValidatingAdmissionPolicy '{name}' with binding '{name}-0'"
    assert made.status == 201
    assert made.warnings == [f"Validation failed for {about}: no"]


async def test_updates_and_deletions_are_evaluated_with_the_old_object(api):
    expression = "request.operation == 'CREATE' || oldObject.data.a == 'x'"
    await api.policy({"validations": [{"expression": expression, "messageExpression": "request.operation"}]})
    await api.create(data={"a": "x"})
    assert (await api("PATCH", ONE, {"data": {"a": "y"}}, MERGE)).status == 200
    assert denial(await api("PATCH", ONE, {"data": {"a": "z"}}, MERGE)) == "UPDATE"
    assert denial(await api("DELETE", ONE)) == "DELETE"


@pytest.mark.parametrize(
    ("constraints", "meant"),
    [
        ({}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}, True),
        ({"objectSelector": {"matchLabels": {"k": "other"}}}, False),
        ({"resourceRules": [{"operations": ["UPDATE"]}]}, False),
        ({"resourceRules": [{"resources": ["*"]}]}, True),
        ({"resourceRules": [{"resources": ["secrets"]}]}, False),
        ({"resourceRules": [{"resourceNames": ["one"]}]}, True),
        ({"resourceRules": [{"resourceNames": ["two"]}]}, False),
        ({"resourceRules": [{"scope": "Cluster"}]}, False),
        ({"excludeResourceRules": [{}]}, False),
        ({"excludeResourceRules": [{"operations": ["DELETE"]}]}, True),
    ],
)
async def test_constraints_select_requests(api, constraints, meant):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    given = {
        key: [{**rule, **each} for each in value] if key.endswith("Rules") else value
        for key, value in constraints.items()
    }
    whole = {"resourceRules": [rule], **given}
    await api.policy({"matchConstraints": whole, "validations": [{"expression": "false"}]})
    assert (await api.create(metadata={"labels": {"k": "v"}})).status == (422 if meant else 201)
    await api("DELETE", ONE)
    if "resourceRules" not in constraints and "excludeResourceRules" not in constraints:
        await api.policy(
            {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]},
            {"matchResources": constraints},
        )
        assert (await api.create(metadata={"labels": {"k": "v"}})).status == (422 if meant else 201)


async def test_equivalent_versions_are_converted_for_the_policy(api):
    rules = [
        {
            "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["horizontalpodautoscalers"],
        }
    ]
    said = "object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version"
    validations = [
        {"expression": "object.spec.targetCPUUtilizationPercentage < 50", "messageExpression": said}
    ]
    await api.policy({"matchConstraints": {"resourceRules": rules}, "validations": validations})
    target = {"type": "Utilization", "averageUtilization": 70}
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    refused = await api("POST", path, {"metadata": {"name": "h"}, "spec": spec})
    assert denial(refused) == "autoscaling/v1 v1 v2"


LIMIT = {"expression": "object.data.n == params.data.n", "messageExpression": "string(params.metadata.name)"}
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
ABSENT = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"name": "limits", "parameterNotFoundAction": "Deny"}, "limits"),
        ({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}, "limits"),
        ({"name": "nowhere", "parameterNotFoundAction": "Deny"}, ABSENT),
        ({"name": "nowhere", "parameterNotFoundAction": "Allow"}, ""),
        ({"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"}, "limits"),
        ({"selector": {"matchLabels": {"limit": "no"}}, "parameterNotFoundAction": "Deny"}, ABSENT),
    ],
)
async def test_parameters_are_found_by_name_or_labels(api, reference, said):
    await api.create("limits", metadata={"labels": {"limit": "yes"}}, data={"n": "3"})
    await api.policy({"paramKind": KIND, "validations": [LIMIT]}, {"paramRef": reference})
    refused = await api.create(data={"n": "4"})
    assert (refused.status, denial(refused) if said else "") == (422 if said else 201, said)
    assert (await api.create("right", data={"n": "3"})).status == (422 if said == ABSENT else 201)


async def test_an_unknown_kind_of_parameters_refuses_the_write(api):
    kind = {"apiVersion": "example.org/v1", "kind": "Nothing"}
    reference = {"name": "x", "parameterNotFoundAction": "Allow"}
    name = await api.policy(
        {"paramKind": kind, "validations": [{"expression": "true"}]}, {"paramRef": reference}
    )
    said = "failed to configure policy: failed to find resource referenced by paramKind: 'example.org/v1, Kind=Nothing'"
    message = f"ValidatingAdmissionPolicy '{name}' denied request: {said}"
    assert (await api.create()).body["message"] == f'configmaps "one" is forbidden: {message}'


async def test_the_authorizer_answers_for_the_caller_and_for_accounts(api):
    asked = "authorizer.serviceAccount('x', 'robot').group('').resource('pods').check('delete')"
    known = f"{asked}.reason() == 'as system:serviceaccount:x:robot'"
    validations = [
        {"expression": "authorizer.requestResource.check('get').allowed()"},
        {"expression": f"{known} && {asked}.allowed()", "message": "the account may not"},
    ]
    await api.policy({"validations": validations})
    assert denial(await api.create()) == "the account may not"


async def test_audit_annotation_errors_refuse_the_write(api):
    annotations = [{"key": "k", "valueExpression": "string(object.data.nothing)"}]
    await api.policy({"auditAnnotations": annotations})
    refused = await api.create(data={"a": "b"})
    assert denial(refused).endswith("resulted in error: no such key: nothing")


async def test_policies_are_exempt_from_policies(api):
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    name = await api.policy(
        {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]}
    )
    assert (await api.create()).status == 422
    group = "/apis/admissionregistration.k8s.io/v1"
    assert (await api("DELETE", f"{group}/validatingadmissionpolicies/{name}")).status == 200


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"validations": [{"expression": "object."}]}, "validations[0].expression", "compilation failed: ERROR"),
        ({"validations": [{"expression": "1"}]}, "validations[0].expression", "must evaluate to bool but got int"),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        ({"validations": [{"expression": "params == 1"}]}, "validations[0].expression", "undeclared reference to 'params'"),
        (
            {"validations": [{"expression": "true"}], "matchConditions": [{"name": "x", "expression": "variables.a"}]},
            "matchConditions[0].expression",
            "undeclared reference to 'variables'",
        ),
        (
            {"validations": [{"expression": "true"}], "variables": [{"name": "1x", "expression": "true"}]},
            "variables[0].name",
            "must be a valid CEL identifier",
        ),
        (
            {"variables": [{"name": "a", "expression": "variables.b"}], "validations": [{"expression": "true"}]},
            "variables[0].expression",
            "undefined field 'b'",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
    ],
)  # fmt: skip
async def test_expressions_are_compiled_as_they_are_written(api, spec, field, said):
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]
    body = {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules}, **spec}}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    refused = await api("POST", path, body)
    assert refused.status == 422
    [cause] = refused.body["details"]["causes"]
    assert cause["field"] == f"spec.{field}"
    assert said in cause["message"]


async def test_policies_apply_to_connect_requests(api):
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    ]
    await api.policy(
        {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "!('rm' in object.command)", "message": "not that"}],
        }
    )
    path = "/api/v1/namespaces/default/pods/p"
    refused = await api("GET", f"{path}/exec?command=rm")
    assert (refused.status, "not that" in refused.body["message"]) == (422, True)
    assert (await api("GET", f"{path}/exec?command=ls")).status == 404
    assert (await api("GET", f"{path}/attach")).status == 404


COSTLY = "lists.range(100).all(a, a >= 0)"
OVER = "validation failed due to running out of cost budget, no further validation rules will be run"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"validations": [{"expression": COSTLY}]}, id="validations"),
        pytest.param(
            {
                "validations": [{"expression": "true"}],
                "auditAnnotations": [{"key": "k", "valueExpression": f"string({COSTLY})"}],
            },
            id="audit annotations",
        ),
    ],
)
@pytest.mark.parametrize(("failure", "status"), [("Fail", 422), ("Ignore", 201)])
async def test_a_policy_that_costs_too_much_follows_the_failure_policy(
    api, monkeypatch, spec, failure, status
):
    monkeypatch.setattr("vcsync.apiserver.admission.policies.validating.BUDGET", 50)
    await api.policy({"failurePolicy": failure, **spec})
    found = await api.create()
    assert found.status == status
    if status == 422:
        assert denial(found) == OVER


async def test_expressions_can_read_the_reason_of_the_authorizer(api):
    check = "authorizer.group('').resource('pods').check('delete')"
    known = [{"expression": f"!{check}.allowed() && {check}.reason() == 'as tester'"}]
    await api.policy({"validations": known})
    assert (await api.create()).status == 201


async def test_policies_apply_to_custom_resources_in_all_versions(api):
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    await api("POST", definitions, {"metadata": {"name": "gadgets.example.org"}, "spec": spec})
    accepted = {"acceptedNames": names, "conditions": [{"type": "NamesAccepted", "status": "True"}]}
    await api("PATCH", f"{definitions}/gadgets.example.org/status", {"status": accepted}, MERGE)
    api.catalogue.forget("a")
    rules = [
        {
            "apiGroups": ["example.org"],
            "apiVersions": ["v2"],
            "operations": ["CREATE"],
            "resources": ["gadgets"],
        }
    ]
    await api.policy(
        {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "object.apiVersion != 'example.org/v2'", "message": "seen as v2"}],
        }
    )
    body = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    refused = await api("POST", "/apis/example.org/v1/namespaces/default/gadgets", body)
    assert (refused.status, denial(refused)) == (422, "seen as v2")
