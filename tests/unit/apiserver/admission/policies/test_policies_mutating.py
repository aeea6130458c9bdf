"""MutatingAdmissionPolicies, end to end in one process."""

import pytest


def apply(expression):
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression):
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def mutating(api, *mutations, binding=None, **spec):
    return await api.policy({"mutations": list(mutations), **spec}, binding or {}, kind="mutating")


@pytest.mark.parametrize(
    ("mutations", "data"),
    [
        ([apply("Object{data: {'b': object.data.a}}")], {"a": "x", "b": "x"}),
        ([apply("Object{}")], {"a": "x"}),
        ([patch("[JSONPatch{op: 'replace', path: '/data/a', value: 'y'}]")], {"a": "y"}),
        ([patch("[JSONPatch{op: 'move', from: '/data/a', path: '/data/b'}]")], {"b": "x"}),
        (
            [patch("[JSONPatch{op: 'test', path: '/data/a', value: 'z'}, JSONPatch{op: 'remove', path: '/data'}]")],
            {"a": "x"},
        ),
        (
            [apply("Object{data: {'b': 'y'}}"), patch("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b}]")],
            {"a": "x", "b": "y", "c": "y"},
        ),
    ],
)  # fmt: skip
async def test_objects_are_changed(api, mutations, data):
    await mutating(api, *mutations)
    made = await api.create(data={"a": "x"})
    assert made.status == 201, made.body
    assert made.body["data"] == data


@pytest.mark.parametrize(
    ("mutation", "code", "said"),
    [
        (
            apply("Object{data: {'a': object.data.nothing}}"),
            403,
            "denied request: expression 'Object{data: {'a': object.data.nothing}}' resulted in error: no such key: nothing",
        ),
        (
            apply("Object{other: 1}"),
            403,
            (
                "denied request: error applying patch: failed to convert patch object to typed object: "
                ".other: field not declared in schema"
            ),
        ),
        (
            apply("Object{metadata: Object.data{}}"),
            403,
            (
                'denied request: type mismatch: unexpected type name "Object.data", expected "Object.metadata", '
                "which matches field name path from root Object type"
            ),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/other', value: 1}]"),
            500,
            'Internal error occurred: strict decoding error: unknown field "other"',
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/data', value: 'text'}]"),
            500,
            (
                "Internal error occurred: json: cannot unmarshal string into Go struct field ConfigMap.data "
                "of type map[string]string"
            ),
        ),
    ],
)
async def test_mutations_that_cannot_be_applied_refuse_the_write(api, mutation, code, said):
    await mutating(api, mutation)
    refused = await api.create(data={"a": "x"})
    assert refused.status == code
    assert refused.body["message"].endswith(said)


async def test_mutation_errors_are_ignored_with_failure_policy_ignore(api):
    await mutating(api, apply("Object{data: {'a': object.nothing}}"), failurePolicy="Ignore")
    assert (await api.create(data={"a": "x"})).body["data"] == {"a": "x"}


async def test_refusals_name_all_failed_policies(api):
    wrong = apply("Object{data: {'a': object.nothing}}")
    name = await mutating(api, wrong, apply("Object{data: {'b': 'c'}}"), wrong)
    refused = await api.create(data={"a": "x"})
    about = f"policy '{name}' with binding '{name}-0' denied request: "
    causes = [each["message"] for each in refused.body["details"]["causes"]]
    assert (refused.status, refused.body["reason"]) == (403, "Invalid")
    assert refused.body["message"] == causes[0]
    assert len(causes) == 2
    assert all(each.startswith(about) for each in causes)


async def test_lists_are_merged_by_key_and_atomic_lists_are_refused(api):
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    side = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 's'}]}}"
    await mutating(api, apply(side), matchConstraints={"resourceRules": rules})
    path = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = await api("POST", path, pod)
    assert [each["name"] for each in made.body["spec"]["containers"]] == ["c", "side"]
    assert made.body["spec"]["containers"][1]["imagePullPolicy"] == "Always"
    atomic = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}"
    await mutating(api, apply(atomic), matchConstraints={"resourceRules": rules})
    pod["metadata"]["name"] = "two"
    refused = await api("POST", path, pod)
    assert refused.body["message"].endswith(
        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args"
    )


async def test_policies_with_if_needed_are_reinvoked_after_later_changes(api):
    seen = "[JSONPatch{op: 'add', path: '/data/seen', value: string(has(object.data.late))}]"
    await mutating(api, patch(seen), reinvocationPolicy="IfNeeded")
    await mutating(api, patch(seen.replace("seen", "once")))
    await mutating(api, apply("Object{data: {'late': 'yes'}}"))
    made = await api.create(data={"a": "x"})
    assert made.body["data"] == {"a": "x", "late": "yes", "seen": "true", "once": "false"}


async def test_mutations_see_variables_and_parameters_and_respect_match_conditions(api):
    await api.create("limits", data={"n": "3"})
    await mutating(
        api,
        apply("Object{data: {variables.key: params.data.n}}"),
        binding={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "c", "expression": "object.data.a == 'x'"}],
        variables=[{"name": "key", "expression": "'of-' + object.metadata.name"}],
    )
    assert (await api.create(data={"a": "x"})).body["data"] == {"a": "x", "of-one": "3"}
    assert (await api.create("two", data={"a": "y"})).body["data"] == {"a": "y"}


async def test_validating_policies_see_the_mutated_object(api):
    await mutating(api, apply("Object{data: {'a': 'y'}}"))
    await api.policy({"validations": [{"expression": "object.data.a == 'x'"}]})
    assert (await api.create(data={"a": "x"})).status == 422
