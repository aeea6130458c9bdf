"""Grants in the filter chain, and guests in the audit log and in access reviews."""

from types import SimpleNamespace

import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.authentication.authenticator import Authenticator
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.filters.guests import admit_guest
from vcsync.apiserver.filters.priority_and_fairness import wait_for_seat
from vcsync.apiserver.request.audit_trail import Level, Trail
from vcsync.apiserver.request.caller import Caller, Granted, guest, settle_tenant
from vcsync.apiserver.request.request_info import parse_path, request_info
from vcsync.apiserver.reviews.reviews import Reviews

ALICE = Caller(User("alice", groups=("devs",)), "acme")
OPERATOR = Caller(User("root"), "system", system=True)
VIEW = Granted("support", "d", (("ClusterRole", "view"),), ("shop",))


async def admitted(caller, path):
    asked = []

    async def guests(who, tenant):
        asked.append(tenant)
        return guest(who, tenant, (VIEW,))

    info = request_info("GET", parse_path(path), {})
    return await admit_guest(guests, caller, info), asked


@pytest.mark.parametrize(
    "path",
    ["/tenants/umbrella/api", "/api/v1/tenants/umbrella/pods", "/apis/apps/v1/tenants/umbrella/deployments"],
)
async def test_a_caller_may_be_a_guest_of_the_tenant_that_the_url_names(path):
    caller, asked = await admitted(ALICE, path)
    assert (caller.home, caller.tenant, asked) == ("acme", "umbrella", ["umbrella"])
    assert settle_tenant(caller, "umbrella") == "umbrella"


@pytest.mark.parametrize(
    ("caller", "path"),
    [
        (ALICE, "/api/v1/pods"),
        (ALICE, "/tenants/acme/api/v1/pods"),
        (ALICE, "/tenants/all/api/v1/pods"),
        (ALICE, "/tenants/umbrella/vcsync/v1/tenants"),
        (ALICE, "/vcsync/v1/tenants"),
        (OPERATOR, "/tenants/umbrella/api/v1/pods"),
    ],
)
async def test_other_requests_do_not_look_for_grants(caller, path):
    assert await admitted(caller, path) == (caller, [])


async def test_without_grants_nobody_is_a_guest():
    info = request_info("GET", "/tenants/umbrella/api", {})
    assert await admit_guest(None, ALICE, info) is ALICE


def test_the_audit_log_names_home_tenant_and_grants():
    trail = Trail(Level.METADATA)
    request_log.admitted(trail, guest(ALICE, "umbrella", (VIEW, Granted("other", "e", ()))))
    assert trail.annotations == {
        "tenancy.x-k8s.io/home-tenant": "acme",
        "tenancy.x-k8s.io/grants": "support,other",
    }


class Seats:
    """Records who takes a seat."""

    def __init__(self):
        self.seen, self.work_estimator = [], SimpleNamespace(seats=lambda *_: 1)

    def known(self, _):
        return True

    def enter(self, owner, caller, _info, _width):
        self.seen.append((owner, caller.user.name, caller.user.groups))
        return SimpleNamespace(flow=SimpleNamespace(headers={}), ready=None, watch=lambda _: None)


@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        (ALICE, ("umbrella", "alice", ("devs",))),
        (guest(ALICE, "umbrella", (VIEW,)), ("umbrella", "tenant:acme:alice", ("system:authenticated",))),
    ],
)
async def test_guests_take_seats_of_authenticated_users_of_the_granting_tenant(caller, seen):
    seats, incoming = Seats(), SimpleNamespace(seat=None, flow_headers=None)
    info = request_info("GET", "/tenants/umbrella/api/v1/pods", {})
    identity = SimpleNamespace(exists=lambda _: True)
    await wait_for_seat(seats, identity, incoming, "umbrella", caller, info, {})
    assert seats.seen == [seen]


@pytest.fixture
async def reviews(store):
    authorizer = Authorizer(store, lambda _: False)
    return Reviews(authorizer, object.__new__(Authenticator), lambda: 0.0)


async def test_access_reviews_tell_a_guest_what_is_decided(reviews):
    caller = guest(ALICE, "umbrella", (VIEW,))

    async def allowed(**attributes):
        body = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        answer = await reviews.create(caller, "umbrella", "selfsubjectaccessreviews", "", body)
        return answer["status"]["allowed"]

    assert await allowed(verb="get", resource="pods", namespace="shop")
    assert not await allowed(verb="get", resource="pods", namespace="web")
    assert not await allowed(verb="get", resource="secrets", namespace="shop")
    assert not await allowed(verb="create", group="tenancy.x-k8s.io", resource="tenantgrants")


async def test_the_rules_of_a_guest_are_incomplete_and_say_so(reviews):
    caller = guest(ALICE, "umbrella", (VIEW,))

    async def rules(namespace):
        body = {"kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
        return (await reviews.create(caller, "umbrella", "selfsubjectrulesreviews", "", body))["status"]

    inside, outside = await rules("shop"), await rules("web")
    assert any("pods" in each["resources"] for each in inside["resourceRules"])
    assert not any("pods" in each["resources"] for each in outside["resourceRules"])
    assert inside["incomplete"]
    assert "never pass on" in inside["evaluationError"]
