"""The size of refusals: it grows with what a client sends, not with its square, and has a limit."""

import json
from typing import Any

import pytest

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.rules import RULES, compile_rules
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.message_size import LONGEST_ANSWER, LONGEST_PATH, LONGEST_TEXT, Room, cut, extended
from vcsync.apimachinery.patch import apply, fields
from vcsync.apimachinery.structural.schema import MOST_UNKNOWN, build, prune
from vcsync.apimachinery.structural.schema_check import check_schema
from vcsync.apimachinery.structural.validation import validate
from vcsync.apimachinery.wire import gojson

SLACK = 16 * 1024
"""Bytes of an answer beside its findings: names, and the entry about those that are left out."""


def quota(count: int) -> dict[str, Any]:
    """A ResourceQuota with so many unknown scopes of 100 characters."""
    return {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}, "scopes": [f"{index:0100d}" for index in range(count)]},
    }


def selecting_quota(count: int) -> dict[str, Any]:
    """A ResourceQuota whose selector applies so many scopes to resources that they do not support."""
    terms = [
        {"scopeName": "BestEffort", "operator": "Exists", "values": [f"{index:0100d}"]}
        for index in range(count)
    ]
    hard = {"requests.cpu": "1", "limits.cpu": "1", "requests.memory": "1"}
    return {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard, "scopeSelector": {"matchExpressions": terms}},
    }


def claiming_pod(count: int) -> dict[str, Any]:
    """A Pod whose containers name claims that are none of its many claims."""
    claims = [{"name": f"{index:050d}", "resourceClaimName": "c"} for index in range(count)]
    asked = [{"name": f"other-{index}"} for index in range(count)]
    container = {"name": "a", "image": "a", "resources": {"claims": asked}}
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": claims},
    }


def role(count: int) -> dict[str, Any]:
    """A Role with rules that name many URLs, which no Role can have."""
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/" + "x" * 100] * 30} for _ in range(count)]
    return {"metadata": {"name": "r", "namespace": "default"}, "rules": rules}


def webhooks(count: int) -> dict[str, Any]:
    """A webhook configuration with rules that name each resource beside all resources."""
    rule = {
        "operations": ["*", "CREATE"],
        "apiGroups": ["*", "x" * 100],
        "apiVersions": ["v1"],
        "resources": ["*/*", *("x" * 100 for _ in range(30))],
    }
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule] * count,
    }
    return {"metadata": {"name": "w"}, "webhooks": [hook]}


def refused(group: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    behaviour = BEHAVIOURS[group, kind]
    behaviour.default(obj)
    findings = behaviour.validate(obj)
    assert findings
    return errors.invalid(kind, group, obj["metadata"]["name"], findings).status()


def size(status: dict[str, Any]) -> int:
    return len(json.dumps(status, ensure_ascii=False).encode())


CASES = [
    ("", "ResourceQuota", quota),
    ("", "ResourceQuota", selecting_quota),
    ("", "Pod", claiming_pod),
    ("rbac.authorization.k8s.io", "Role", role),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", webhooks),
]


@pytest.mark.parametrize("count", [200, 2_000])
@pytest.mark.parametrize(("group", "kind", "made"), CASES, ids=[each[2].__name__ for each in CASES])
def test_a_refusal_has_a_largest_size(group: str, kind: str, made: Any, count: int) -> None:
    status = refused(group, kind, made(count))
    assert size(status) <= LONGEST_ANSWER + SLACK
    *shown, last = status["details"]["causes"]
    assert shown[0]["message"] in status["message"]
    assert "more, which are left out" in last["message"]
    assert last["message"] in status["message"]
    assert ", which are left out" not in "".join(each["message"] for each in shown)


def test_the_entry_about_more_says_how_many() -> None:
    status = refused("", "ResourceQuota", quota(2_000))
    *shown, last = status["details"]["causes"]
    assert last["field"] == "spec.scopes"
    assert last["message"].startswith(f"and {2_000 - len(shown)} more, ")


def test_the_findings_on_scopes_and_resources_are_no_product() -> None:
    obj = quota(0)
    obj["spec"] = {
        "hard": {f"requests.hugepages-{index + 1}Mi": "1" for index in range(300)},
        "scopes": ["BestEffort"] * 300,
    }
    assert len(BEHAVIOURS["", "ResourceQuota"].validate(obj)) == 10_000
    status = refused("", "ResourceQuota", obj)
    assert size(status) <= LONGEST_ANSWER + SLACK


@pytest.mark.parametrize(("group", "kind", "made"), CASES, ids=[each[2].__name__ for each in CASES])
def test_values_become_text_only_as_long_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch, group: str, kind: str, made: Any
) -> None:
    written = 0
    real = errors.value_text

    def counted(value: Any) -> str:
        nonlocal written
        text = real(value)
        written += len(text)
        return text

    def rendered(count: int) -> int:
        nonlocal written
        written = 0
        refused(group, kind, made(count))
        return written

    monkeypatch.setattr(errors, "value_text", counted)
    few, many = rendered(200), rendered(2_000)
    assert few <= LONGEST_ANSWER
    # Values that are longer than what is shown of them are read whole, some eight times.
    assert many <= LONGEST_ANSWER + 10 * size(made(2_000))


def test_one_long_value_is_cut() -> None:
    text = "x" * 3_000_000
    error = errors.invalid("Thing", "", "name", [errors.wrong("spec.a", text, "must be short")])
    [cause] = error.causes
    assert (
        cause.message == f'Invalid value: "{"x" * (LONGEST_TEXT - 1)}... (3000002 characters): must be short'
    )
    assert error.message == f'Thing "name" is invalid: spec.a: {cause.message}'


def test_one_finding_is_shown_however_much_its_escapes_take() -> None:
    error = errors.invalid("Thing", "", "name", [errors.wrong("spec.a", "", "\x01" * 3_000_000)] * 2)
    assert [each.message[:17] for each in error.causes] == ['Invalid value: ""', "and 1 more, which"]


def test_short_refusals_stay_whole() -> None:
    values = [f"{index}" for index in range(50)]
    found = [errors.wrong("spec.a", values, f"finding {index % 40}") for index in range(50)]
    error = errors.invalid("Thing", "example.com", "name", found)
    shown = json.dumps(values, separators=(",", ":"))
    texts = [f"spec.a: Invalid value: {shown}: finding {index}" for index in range(40)]
    assert error.message == f'Thing.example.com "name" is invalid: [{", ".join(texts)}]'
    assert len(error.causes) == 50


@pytest.mark.parametrize(
    ("found", "body"),
    [
        (errors.required("a"), "Required value"),
        (errors.required("a", "x"), "Required value: x"),
        (errors.wrong("a", None, ""), "Invalid value: null"),
        (errors.wrong("a", {"b": ["ä"]}, "x"), 'Invalid value: {"b":["ä"]}: x'),
        (errors.wrong("a", 1, "failed rule", "x"), "Invalid value: 1: failed rule: x"),
        (errors.wrong_type("a", 1, "x"), "Invalid value: 1: x"),
        (errors.not_supported("a", "c", ("x", "y")), 'Unsupported value: "c": supported values: "x", "y"'),
        (errors.duplicate("a", "c"), 'Duplicate value: "c"'),
        (errors.not_allowed("a", "x"), "Forbidden: x"),
        (errors.absent("a", "c"), 'Not found: "c"'),
        (errors.too_many("a", 3, 2), "Too many: 3: must have at most 2 items"),
    ],
)
def test_the_forms_of_findings(found: errors.FieldError, body: str) -> None:
    assert found.body == body
    assert str(found) == f"a: {body}"


def test_paths_have_a_longest_form() -> None:
    path = extended("spec", "." + "x" * 5_000)
    assert path == f"spec.{'x' * (LONGEST_PATH - 5)}..."
    assert extended(path, "[3]") is path
    assert extended("spec", "[3]") == "spec[3]"


def test_a_text_is_cut_with_a_note() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "abc... (4 characters)"


def test_room_counts_bytes_of_json() -> None:
    assert Room(100).holds("ä" * 10)
    assert not Room(100).holds("ä" * 30)
    assert not Room(100).holds("\x01" * 10)


@pytest.mark.parametrize("count", [200, 2_000])
def test_findings_below_a_long_name_do_not_repeat_it(count: int) -> None:
    long = "n" * 20_000
    wrong = {f"p{index}": {"type": "nothing"} for index in range(count)}
    schema = {"type": "object", "properties": {long: {"type": "object", "properties": wrong}}}
    found = check_schema("spec", schema, RULES, status=False)
    assert len(found) >= count
    assert sum(len(each.field) for each in found) <= len(found) * (LONGEST_PATH + 3)
    assert (
        size(errors.invalid("CustomResourceDefinition", "", "name", found).status()) <= LONGEST_ANSWER + SLACK
    )


def test_values_below_a_long_name_do_not_repeat_it() -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {}, "additionalProperties": numbers}
    found = validate("", {"n" * 20_000: {f"p{index}": "x" for index in range(500)}}, schema)
    assert found
    assert sum(len(each.field) for each in found) <= len(found) * (LONGEST_PATH + 3)


def test_findings_that_list_an_enumeration_share_it() -> None:
    choices = [f"{index:0100d}" for index in range(2_000)]
    schema = {"type": "array", "items": {"type": "string", "enum": choices}}
    found = validate("spec", ["none"] * 300, schema)
    assert len({id(each.choices) for each in found}) == 1


def test_findings_share_the_text_of_a_rule() -> None:
    rule = {"rule": f"self == '{'x' * 5_000}'"}
    items = {"type": "string", "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
    validator = compile_rules(build(schema))
    assert validator is not None
    found = validator.validate("", {"a": ["no"] * 50}, None, None)
    assert len({id(part) for each in found for part in each.details}) == 2
    assert found[0].body == f'Invalid value: "no": failed rule: {rule["rule"]}'


def test_unknown_and_repeated_fields_below_a_long_name_do_not_repeat_it() -> None:
    node = build({"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {}}}})
    removed = prune({"n" * 20_000: {f"p{index}": 1 for index in range(2_000)}}, node)
    assert len(removed) == MOST_UNKNOWN
    assert max(map(len, removed)) <= LONGEST_PATH + 3
    body = json.dumps({"n" * 500: {f"p{index}": 1 for index in range(500)}})
    body = body.replace('"p', '"x":1,"x":2,"p')
    assert gojson.duplicates(body.encode(), json.loads(body)) == [f"{'n' * 500}.x"]
    twice = "{" + ",".join(f'"p{index}":1,"p{index}":2' for index in range(500)) + "}"
    assert gojson.duplicates(twice.encode(), json.loads(twice)) == [f"p{index}" for index in range(100)]


def test_conflicts_have_a_largest_size() -> None:
    fields_set = {"f:data": {f"f:{'n' * 20_000}": {f"f:p{index}": {} for index in range(3_000)}}}
    assert len(list(fields.paths(fields_set))) == 3_000
    status = apply._conflict({"me": fields_set}).status()
    assert size(status) <= LONGEST_ANSWER + SLACK
    assert status["message"].startswith("Apply failed with 3000 conflicts: conflicts with me:\n- .data.nnn")
    assert "more, which are left out" in status["details"]["causes"][-1]["message"]
