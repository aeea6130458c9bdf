"""Who may write policies with parameters."""

from types import SimpleNamespace

import pytest

from vcsync.controlplane.admission.policies.permission import check_params
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError

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


async def refusal(plural, kind, new, old=None, may=None, user=JANE):
    """Return what is asked of the authorizer, and the refusal."""
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
        name="x",
        context=SimpleNamespace(user=user),
    )
    new = {"metadata": {"name": "x"}, "spec": new}
    admission = SimpleNamespace(scope=scope, new=new, old=None if old is None else {"spec": old})
    try:
        await check_params(Lookup(), allowed, param_kind)(admission)
    except StatusError as why:
        return asked, why.causes[0].message.removeprefix("Forbidden: ")
    return asked, ""


async def policy(spec, **more):
    return await refusal("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec, **more)


async def binding(spec, **more):
    return await refusal("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", spec, **more)


async def test_authors_of_policies_may_read_all_parameters():
    told = (
        'must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    )
    asked = [("get", "", "secrets", "*", "*")]
    assert await policy({"paramKind": SECRETS}) == (asked, f"{SHOWN} {told}")
    assert await policy({"paramKind": SECRETS}, may=True) == (asked, "")


@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        ({"name": "s", "namespace": "n"}, ("get", "", "secrets", "n", "s")),
        ({"selector": {}}, ("list", "", "secrets", "", "")),
    ],
)
async def test_authors_of_bindings_may_read_what_they_name(reference, asked):
    spec = {"policyName": "known", "paramRef": reference}
    told = f'{SHOWN} does not have "{asked[0]}" permission on the object referenced by paramRef'
    assert await binding(spec) == ([asked], told)


async def test_where_the_policy_is_not_known_everything_must_be_readable():
    asked, told = await binding({"policyName": "unknown", "paramRef": {"name": "s"}})
    assert asked == [("get", "*", "*", "", "s")]
    assert told.startswith(
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
async def test_nobody_is_asked_without_need(given):
    assert await policy(given.pop("spec"), **given) == ([], "")
