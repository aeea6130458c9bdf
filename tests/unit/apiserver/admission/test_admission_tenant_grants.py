"""Admission of TenantGrants: their rules, their number, and the roles that their author may bind."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.admission.tenant_grants import MAX_GRANTS, TenantGrants
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.authorization.bootstrap import TENANT_ADMINS
from vcsync.apiserver.authorization.escalation import check_grant
from vcsync.apiserver.authorization.policy import Binding, Policy, Subject
from vcsync.apiserver.authorization.rbac import Rule
from vcsync.apiserver.request.caller import MASTERS, Caller, Granted
from vcsync.apiserver.request.scope import Admission, Scope

ADMIN = Caller(User("admin", groups=(TENANT_ADMINS,)), "umbrella")
SPEC = {
    "tenant": "acme",
    "subjects": [{"kind": "User", "name": "alice"}],
    "roles": [{"kind": "ClusterRole", "name": "view"}],
    "namespaces": ["shop"],
}


class Kind:
    def __init__(self, plural, group="tenancy.x-k8s.io"):
        self.resource = Resource(group, "v1alpha1", plural, plural, "TenantGrant", False, (), custom=True)


class Store:
    def __init__(self, count=0):
        self.number = count

    async def count(self, prefix):
        assert prefix == "umbrella/custom:tenancy.x-k8s.io/tenantgrants/"
        return self.number


class Plugin:
    def __init__(self, count=0):
        self.checked = []
        self.admit = TenantGrants(Store(count), self.check)

    async def check(self, caller, grant):
        self.checked.append((caller, grant))

    async def __call__(self, spec=SPEC, old=None, *, plural="tenantgrants", operation="CREATE", **scope):
        scope = {"tenant": "umbrella", "subresource": "", "caller": ADMIN, **scope}
        context = Context(scope["tenant"], ADMIN.user, "")
        found = Scope(kind=Kind(plural), context=context, name="", **scope)
        new = None if spec is None else {"metadata": {"name": "support"}, "spec": spec}
        before = None if old is None else {"metadata": {"name": "support"}, "spec": old}
        await self.admit(Admission(found, operation, "support", new, before, False))


async def test_a_valid_grant_is_checked_for_what_it_gives():
    plugin = Plugin()
    await plugin()
    assert plugin.checked == [(ADMIN, Granted("support", "", (("ClusterRole", "view"),), ("shop",)))]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"tenant": "umbrella"}, "spec.tenant"),
        ({"subjects": [{"kind": "Group", "name": "system:masters"}]}, "spec.subjects[0].name"),
        ({"namespaces": []}, "spec.namespaces"),
        ({"expires": "soon"}, "spec.expires"),
        ({"tenant": "No Tenant"}, "spec"),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_an_invalid_grant_is_refused(changed, field, operation):
    plugin = Plugin()
    with pytest.raises(StatusError) as refused:
        await plugin({**SPEC, **changed}, SPEC if operation == "UPDATE" else None, operation=operation)
    assert refused.value.code == 422
    assert [each.field for each in refused.value.causes] == [field]
    assert plugin.checked == []


async def test_writes_that_change_no_spec_pass():
    plugin = Plugin(MAX_GRANTS)
    await plugin(SPEC, SPEC, operation="UPDATE")
    await plugin(None, SPEC, operation="DELETE")
    await plugin({}, subresource="status", operation="UPDATE")
    await plugin({}, tenant="system")
    await plugin({}, plural="tenants")
    await plugin({"accept": ""}, {}, plural="tenantgrantoffers", operation="UPDATE")
    assert plugin.checked == []


async def test_a_changed_grant_is_checked_again_and_not_counted():
    plugin = Plugin(MAX_GRANTS)
    await plugin({**SPEC, "namespaces": ["web"]}, SPEC, operation="UPDATE")
    assert plugin.checked[0][1].namespaces == ("web",)


async def test_a_tenant_has_a_limited_number_of_grants():
    await Plugin(MAX_GRANTS - 1)()
    with pytest.raises(StatusError, match="at most 100"):
        await Plugin(MAX_GRANTS)()


async def test_tenants_make_no_offers():
    with pytest.raises(StatusError, match="make a TenantGrant"):
        await Plugin()({}, plural="tenantgrantoffers")


PODS = (Rule(("get",), ("",), ("pods",)),)
POLICY = Policy(
    {"pods": PODS, "admin": (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",))), "binder": ()},
    {("shop", "reader"): PODS},
    [
        Binding("a", "ClusterRole", "pods", (Subject("User", "local"),), "shop"),
        Binding("b", "ClusterRole", "pods", (Subject("User", "wide"),)),
        Binding("c", "ClusterRole", "admin", (Subject("User", "admin"),)),
    ],
)


def granted(*roles, namespaces=("shop",)):
    return Granted("g", "", roles, namespaces, not namespaces)


@pytest.mark.parametrize(
    ("user", "grant", "code"),
    [
        ("admin", granted(("ClusterRole", "admin"), namespaces=()), 0),
        ("admin", granted(("ClusterRole", "missing"), namespaces=()), 0),
        ("wide", granted(("ClusterRole", "pods"), namespaces=()), 0),
        ("wide", granted(("ClusterRole", "pods"), ("Role", "reader")), 0),
        ("wide", granted(("ClusterRole", "admin")), 403),
        ("wide", granted(("ClusterRole", "pods"), ("ClusterRole", "admin")), 403),
        ("wide", granted(("ClusterRole", "missing")), 404),
        ("wide", granted(("Role", "reader"), namespaces=("web",)), 404),
        ("local", granted(("ClusterRole", "pods")), 0),
        ("local", granted(("ClusterRole", "pods"), namespaces=("shop", "web")), 403),
        ("local", granted(("ClusterRole", "pods"), namespaces=()), 403),
        ("nobody", granted(("ClusterRole", "pods")), 403),
    ],
)
async def test_nobody_grants_more_than_they_may_bind(user, grant, code):
    if not code:
        await check_grant(POLICY, User(user), grant)
        return
    with pytest.raises(StatusError) as refused:
        await check_grant(POLICY, User(user), grant)
    assert refused.value.code == code


async def test_the_operator_may_grant_everything_and_a_guest_nothing(store):
    authorizer = Authorizer(store, lambda _: True)
    grant = granted(("ClusterRole", "cluster-admin"), namespaces=())
    await authorizer.check_grant_write(Caller(User("x", groups=(MASTERS,)), "system", system=True), grant)
    with pytest.raises(StatusError, match="guests never get this"):
        await authorizer.check_grant_write(Caller(User("x"), "umbrella", home="acme", grants=(grant,)), grant)
    with pytest.raises(StatusError):
        await authorizer.check_grant_write(Caller(User("x", groups=(MASTERS,)), "umbrella"), grant)


async def test_guests_impersonate_nobody(store):
    authorizer = Authorizer(store, lambda _: True)
    caller = Caller(
        User("x"), "umbrella", home="acme", grants=(granted(("ClusterRole", "cluster-admin"), namespaces=()),)
    )
    for headers in (
        {"Impersonate-User": "admin"},
        {"impersonate-user": "x", "Impersonate-Group": "system:masters"},
    ):
        with pytest.raises(StatusError, match="guests never get this"):
            await authorizer.impersonate(caller, headers, "umbrella")
    assert await authorizer.impersonate(caller, {"X-Remote-User": "admin"}, "umbrella") is caller
