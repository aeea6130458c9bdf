"""Requests that try to evade the limits of their tenant: none gets more through than the limits allow, and others are served."""

import time
from collections.abc import Callable, Iterator

import pytest

from hack.attacks.client import Answer, Door
from hack.attacks.world import ATTACKER, VICTIM, World

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TRIES, BURST, RATE = 15, 3, 1
LIMITS = f"readsPerSecond={RATE},readBurst={BURST},writesPerSecond={RATE},writeBurst={BURST},watches=5"
TOO_MANY = 429

Attack = Callable[[Door, int], Answer]


def read(path: str = CONFIG_MAPS, method: str = "GET", **headers: str) -> Attack:
    """Return an attack; `{}` in the path and in headers is the number of the try."""

    def attack(door: Door, number: int) -> Answer:
        sent = {name.replace("_", "-"): value.format(number) for name, value in headers.items()}
        return door.ask(method, path.format(number), None, sent)

    return attack


ATTACKS = {
    "users that do not exist": read(Impersonate_User="somebody-{}"),
    "ServiceAccounts that do not exist": read(Impersonate_User="system:serviceaccount:ns-{}:default"),
    "vcsync's own accounts": read(Impersonate_User="system:serviceaccount:vcsync-system:vcsync-syncer"),
    "the anonymous user": read(
        Impersonate_User="system:anonymous", Impersonate_Group="system:unauthenticated"
    ),
    "the operator": read(Impersonate_User="admin", Impersonate_Group="system:masters"),
    "many user agents": read(User_Agent="client-{}"),
    "many addresses": read(X_Forwarded_For="192.0.2.{}", X_Real_Ip="192.0.2.{}", Forwarded="for=192.0.2.{}"),
    "users of a proxy": read(X_Remote_User="user-{}", X_Remote_Group="system:masters"),
    "the tenant's path": read(f"/tenants/{ATTACKER}{CONFIG_MAPS}"),
    "Arktos' path": read(f"/api/v1/tenants/{ATTACKER}/namespaces/default/configmaps"),
    "the victim's path": read(f"/tenants/{VICTIM}{CONFIG_MAPS}?n={{}}"),
    "a query that names the victim": read(f"{CONFIG_MAPS}?tenant={VICTIM}"),
    "objects that do not exist": read(f"{CONFIG_MAPS}/no-{{}}"),
    "namespaces that do not exist": read("/api/v1/namespaces/no-{}/configmaps"),
    "kinds that do not exist": read("/apis/no-{}.example.com/v1/things"),
    "paths that are no resources": read("/version?n={}"),
    "discovery": read("/api?n={}"),
    "OpenAPI": read("/openapi/v3?n={}"),
    "health": read("/livez?n={}"),
    "short watches": read(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0&n={{}}"),
    # Its answer names the length of a body that does not come: the server has to end the connection.
    "HEAD": lambda door, _: door.ask("HEAD", "/version", headers={"Connection": "close"}),
    "OPTIONS": read(method="OPTIONS"),
    "an unknown method": read(method="BREW"),
    "objects that are not valid": lambda door, _: door.ask("POST", CONFIG_MAPS, b"{"),
    "dry runs": lambda door, _: door.ask(
        "POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"generateName": "a-"}}
    ),
    "reviews": lambda door, number: door.ask(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"nonResourceAttributes": {"path": f"/{number}", "verb": "get"}}},
    ),
}


@pytest.fixture(scope="module", autouse=True)
def limited(world: World) -> Iterator[None]:
    """Limit the attacker, whose roles let anonymous callers read."""
    binding = {
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:anonymous"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert world.attacker.ask("POST", path, binding).status == 201
    world.plane.vcsync("tenant", "set", ATTACKER, "--limits", LIMITS)
    yield
    world.plane.vcsync("tenant", "set", ATTACKER, "--limits", "")


def drain(door: Door) -> None:
    """Use up the bursts."""
    for method in ("GET", "POST"):
        while door.ask(method, CONFIG_MAPS, None if method == "GET" else b"{").status != TOO_MANY:
            pass


@pytest.mark.parametrize("what", ATTACKS)
def test_nothing_evades_the_limits_of_a_tenant(world: World, what: str) -> None:
    drain(world.attacker)
    drained = time.monotonic()
    answers = [ATTACKS[what](world.attacker, number) for number in range(TRIES)]
    # Some requests are refused for another reason before they are counted: they cost the server little.
    passed = [each for each in answers if each.status not in (TOO_MANY, 400, 403, 405)]
    assert len(passed) <= 2 + (time.monotonic() - drained) * RATE, [each.status for each in answers]


def test_many_certificates_evade_no_limit(world: World) -> None:
    users = [world.user(ATTACKER, f"user-{number}", "vcsync:tenant-admins") for number in range(TRIES)]
    drain(world.attacker)
    drained = time.monotonic()
    passed = [user.ask("GET", CONFIG_MAPS).status != TOO_MANY for user in users]
    assert sum(passed) <= 2 + (time.monotonic() - drained) * RATE


def test_anonymous_callers_get_the_allowance_once_and_the_tenant_keeps_its_own(world: World) -> None:
    began = time.monotonic()
    path = f"/tenants/{ATTACKER}{CONFIG_MAPS}"
    statuses = [world.anonymous.ask("GET", path).status for _ in range(TRIES)]
    assert statuses[0] == 200
    assert statuses.count(200) <= BURST + 1 + (time.monotonic() - began) * RATE
    assert world.operator.ask("GET", path).status == 200
