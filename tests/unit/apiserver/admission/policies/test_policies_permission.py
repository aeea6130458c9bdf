"""Permissions that authors of policies with parameters need."""

from types import SimpleNamespace

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.admission.policies.permission import check_params

GROUP = "admissionregistration.k8s.io"
SECRETS = {"apiVersion": "v1", "kind": "Secret"}
JANE = User("jane", groups=("dev",))
SHOWN = "user &{jane  [dev] map[]}"


class Lookup:
    async def get(self, tenant, group, plural, name):
        return {"spec": {"paramKind": SECRETS}} if name == "known" else None


def param_kind(tenant, wanted):
    known = wanted == SECRETS
    return SimpleNamespace(resource=SimpleNamespace(plural="secrets")) if known else None


async def refusal(plural, kind, new, old=None, may=None, user=JANE, *, message=False):
    """Return the requests to the authorizer, and the refusal."""
    asked = []

    async def allowed(caller, check):
        asked.append((check.verb, check.group, check.resource, check.namespace, check.name))
        return may

    resource = SimpleNamespace(group=GROUP, plural=plural, kind=kind)
    scope = SimpleNamespace(
        kind=SimpleNamespace(resource=resource),
        subresource="",
        tenant="a",
        caller=None,
        name="of-the-url",
        context=SimpleNamespace(user=user),
    )
    new = {"metadata": {"name": "x"}, "spec": new}
    admission = SimpleNamespace(scope=scope, new=new, old=None if old is None else {"spec": old})
    try:
        await check_params(Lookup(), allowed, param_kind)(admission)
    except StatusError as why:
        return asked, why.message if message else why.causes[0].message.removeprefix("Forbidden: ")
    return asked, ""


async def policy(spec, **more):
    return await refusal("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec, **more)


async def binding(spec, **more):
    return await refusal("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", spec, **more)


async def test_authors_of_policies_need_permission_to_read_all_parameters():
    refusal_message = (
        'must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    )
    asked = [("get", "", "secrets", "*", "*")]
    assert await policy({"paramKind": SECRETS}) == (asked, f"{SHOWN} {refusal_message}")
    assert await policy({"paramKind": SECRETS}, may=True) == (asked, "")


@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        ({"name": "s", "namespace": "n"}, ("get", "", "secrets", "n", "s")),
        ({"selector": {}}, ("list", "", "secrets", "", "")),
    ],
)
async def test_authors_of_bindings_need_permission_to_read_the_referenced_parameters(reference, asked):
    spec = {"policyName": "known", "paramRef": reference}
    refusal_message = f'{SHOWN} does not have "{asked[0]}" permission on the object referenced by paramRef'
    assert await binding(spec) == ([asked], refusal_message)


@pytest.mark.parametrize("changed", ["paramRef", "policyName"])
async def test_changing_a_binding_needs_permission_to_read_the_new_parameters(changed):
    spec = {"policyName": "known", "paramRef": {"name": "s"}}
    old = {**spec, changed: {"name": "t"} if changed == "paramRef" else "unknown"}
    asked, refusal_message = await binding(spec, old=old)
    assert asked == [("get", "", "secrets", "", "s")]
    assert refusal_message
    assert await binding(spec, old=spec) == ([], "")


async def test_an_unknown_kind_of_parameters_is_authorized_by_its_group():
    asked, refusal_message = await policy({"paramKind": {"apiVersion": "example.org/v2", "kind": "Thing"}})
    assert asked == [("get", "example.org", "*", "*", "*")]
    assert "(kind=Thing, apiVersion=example.org/v2)" in refusal_message


async def test_a_refusal_names_the_object():
    _, refusal_message = await policy({"paramKind": SECRETS}, message=True)
    assert refusal_message.startswith(
        'ValidatingAdmissionPolicy.admissionregistration.k8s.io "x" is invalid: spec.paramKind: Forbidden: user '
    )


async def test_a_binding_of_an_unknown_policy_needs_permission_to_read_everything():
    asked, refusal_message = await binding({"policyName": "unknown", "paramRef": {"name": "s"}})
    assert asked == [("get", "*", "*", "", "s")]
    assert refusal_message.startswith(
        f"unable to get policy unknown to determine minimum required permissions and {SHOWN}"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"spec": {}},
        {"spec": {"paramKind": SECRETS}, "old": {"paramKind": SECRETS}},
        {"spec": {"paramKind": SECRETS}, "user": User("root", groups=("system:masters",))},
    ],
)
async def test_unrelated_writes_are_not_authorized(given):
    assert await policy(given.pop("spec"), **given) == ([], "")
