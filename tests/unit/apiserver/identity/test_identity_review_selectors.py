"""Selectors in access reviews: what is wrong with them, and what of them counts."""

from typing import Any

import pytest

from tests.unit.apiserver.identity.conftest import House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.reviews.selectors import selected_fields, selector_problems

ADMIN = Caller(User("admin", groups=("vcsync:tenant-admins", "system:authenticated")), "acme")
NEEDS = "must be specified when `operator` is 'In' or 'NotIn'"
HAS_NONE = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
INVALID = '.authorization.k8s.io "" is invalid: '


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def body(spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}


async def ask(house: House, spec: dict[str, Any]) -> Any:
    return await house.identity.reviews.create(ADMIN, "acme", "subjectaccessreviews", "", body(spec))


@pytest.mark.parametrize(
    ("kind", "requirements", "message"),
    [
        ("field", [requirement("a", "In")], f"requirements[0].values: Required value: {NEEDS}"),
        ("field", [requirement("a", "NotIn")], f"requirements[0].values: Required value: {NEEDS}"),
        ("label", [requirement("a", "Exists", "x")], f"requirements[0].values: Forbidden: {HAS_NONE}"),
        ("field", [requirement("a", "DoesNotExist", "x")], f"requirements[0].values: Forbidden: {HAS_NONE}"),
        ("field", [requirement("", "In", "x")], "requirements[0].key: Required value: must be specified"),
        (
            "label",
            [requirement("a", "Exists"), requirement("b", "In", "ok", "-")],
            (
                'requirements[1].values[1]: Invalid value: "-": a valid label must be an empty string or consist of '
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
                "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ),
    ],
)
async def test_requirements_that_make_no_sense(
    house: House, kind: str, requirements: list[dict[str, Any]], message: str
) -> None:
    selector = {f"{kind}Selector": {"requirements": requirements}}
    with pytest.raises(StatusError) as caught:
        await ask(
            house, {"user": "bob", "resourceAttributes": {"verb": "list", "resource": "pods", **selector}}
        )
    assert caught.value.message == f"{INVALID}spec.resourceAttributes.{kind}Selector.{message}"


async def test_a_bad_key_and_a_bad_value_of_a_label_are_both_told(house: House) -> None:
    selector = {"labelSelector": {"requirements": [requirement("a b", "In", "x y", "-")]}}
    with pytest.raises(StatusError) as caught:
        await ask(
            house, {"user": "bob", "resourceAttributes": {"verb": "list", "resource": "pods", **selector}}
        )
    path = "spec.resourceAttributes.labelSelector.requirements[0]"
    assert [cause["field"] for cause in caught.value.status()["details"]["causes"]] == [
        f"{path}.key",
        f"{path}.values[0]",
        f"{path}.values[1]",
    ]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, ()),
        ({"rawSelector": "spec.nodeName=n1,metadata.name!=x"}, (("spec.nodeName", "n1"),)),
        ({"rawSelector": "no selector"}, ()),
        (
            {"requirements": [requirement("a", "In", "1"), requirement("b", "In", "2")]},
            (("a", "1"), ("b", "2")),
        ),
        # Only equality to one value limits what is asked for
        ({"requirements": [requirement("a", "NotIn", "1"), requirement("b", "In", "2", "3")]}, ()),
        ({"requirements": [requirement("a", "Exists"), requirement("b", "Odd", "2")]}, ()),
    ],
)
def test_the_fields_that_a_review_selects(
    selector: dict[str, Any] | None, selected: tuple[tuple[str, str], ...]
) -> None:
    assert selected_fields(selector) == selected


@pytest.mark.parametrize(
    ("key", "selector", "told"),
    [
        ("fieldSelector", {"rawSelector": "a=b"}, ""),
        ("fieldSelector", {"rawSelector": "no selector"}, "ignored"),
        ("labelSelector", {"rawSelector": "a in (b"}, "ignored"),
        ("labelSelector", {"rawSelector": "a in (b)"}, ""),
        ("fieldSelector", {"requirements": [requirement("a", "In", "1")]}, ""),
        (
            "fieldSelector",
            {"requirements": [requirement("a", "In", "1"), requirement("a", "Exists")]},
            "partially ignored",
        ),
        ("fieldSelector", {"requirements": [requirement("a", "NotIn", "1", "2")]}, "ignored"),
        (
            "labelSelector",
            {"requirements": [requirement("a", "Exists"), requirement("a", "Odd")]},
            "partially ignored",
        ),
        ("labelSelector", {"requirements": [requirement("a", "Odd")]}, "ignored"),
    ],
)
def test_selectors_that_are_not_looked_at_are_told(key: str, selector: dict[str, Any], told: str) -> None:
    expected = f"spec.resourceAttributes.{key} {told} due to parse error" if told else ""
    assert selector_problems({key: selector}) == expected


async def test_the_answer_tells_what_of_its_selectors_was_not_looked_at(house: House) -> None:
    asked = {
        "verb": "list",
        "resource": "pods",
        "fieldSelector": {"rawSelector": "no selector"},
        "labelSelector": {"rawSelector": "a in (b"},
    }
    answer = await ask(house, {"user": "bob", "resourceAttributes": asked})
    assert answer["status"]["evaluationError"] == (
        "spec.resourceAttributes.fieldSelector ignored due to parse error; "
        "spec.resourceAttributes.labelSelector ignored due to parse error"
    )


async def test_a_review_of_a_node_counts_the_fields_it_selects(house: House) -> None:
    for value, may in (("n1", True), ("n2", False)):
        spec = {
            "user": "system:node:n1",
            "groups": ["system:nodes"],
            "resourceAttributes": {
                "verb": "list",
                "resource": "pods",
                "fieldSelector": {"requirements": [requirement("spec.nodeName", "In", value)]},
            },
        }
        assert (await ask(house, spec))["status"]["allowed"] is may


async def test_resources_and_paths_are_not_asked_for_at_once(house: House) -> None:
    with pytest.raises(StatusError) as caught:
        await ask(
            house,
            {
                "user": "bob",
                "resourceAttributes": {"verb": "get", "resource": "pods"},
                "nonResourceAttributes": {"verb": "get", "path": "/x"},
            },
        )
    assert caught.value.message == (
        f'{INVALID}spec.nonResourceAttributes: Invalid value: {{"Path":"/x","Verb":"get"}}: '
        "cannot be specified in combination with resourceAttributes"
    )


async def test_a_local_review_of_another_namespace_names_the_one_it_found(house: House) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": "other"}
    review = {
        "kind": "LocalSubjectAccessReview",
        "spec": {"user": "bob", "resourceAttributes": attributes},
    }
    with pytest.raises(StatusError) as caught:
        await house.identity.reviews.create(ADMIN, "acme", "localsubjectaccessreviews", "default", review)
    assert caught.value.message == (
        f'{INVALID}spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'
    )


async def test_a_review_of_a_path_or_a_version_asks_for_it(house: House) -> None:
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["x"]},
    ]
    await house.put("acme", rbac, "clusterroles", {"metadata": {"name": "r"}, "rules": rules})
    await house.put(
        "acme",
        rbac,
        "clusterrolebindings",
        {
            "metadata": {"name": "b"},
            "subjects": [{"kind": "User", "name": "bob"}],
            "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": rbac},
        },
    )
    for path, may in (("/metrics", True), ("/logs", False)):
        answer = await ask(house, {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": path}})
        assert answer["status"]["allowed"] is may
    right = {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale", "name": "x"}
    for change, may in (({}, True), *(({key: "other"}, False) for key in right)):
        answer = await ask(house, {"user": "bob", "resourceAttributes": {**right, **change}})
        assert answer["status"]["allowed"] is may


async def test_extra_and_uid_of_a_review_are_kept_and_need_no_values(house: House) -> None:
    spec = {
        "user": "bob",
        "uid": "1",
        "extra": {"scopes": ["a"], "none": None},
        "resourceAttributes": {"verb": "get", "resource": "pods"},
    }
    answer = await ask(house, spec)
    assert answer["spec"] == spec
    assert answer["status"]["allowed"] is False
