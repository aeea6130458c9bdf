"""One attack of a table: its action, and the finding if it succeeds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hack.attacks.client import Answer, Door
from hack.attacks.judge import REFUSED, problem
from hack.attacks.world import World

RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEFAULT = "/api/v1/namespaces/default"
GROUP = "rbac.authorization.k8s.io"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
ALL_RIGHTS: list[dict[str, Any]] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
LOWLY_RIGHTS: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch", "deletecollection"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
     "verbs": ["update", "patch"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve", "sign"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "create", "delete"]},
]  # fmt: skip
"""Permissions of the user with few permissions: see one Secret, have certificates signed, define custom resources."""


@dataclass(frozen=True)
class Scene:
    """One process under attack.

    Attributes:
        world: the process with its tenants.
        tenant: the attacker's tenant.
        lowly: a user of the tenant with few permissions.
        index: number of the process.
    """

    world: World
    tenant: str
    lowly: Door
    index: int

    @property
    def attacker(self) -> Door:
        """Return the administrator of the attacking tenant."""
        return self.world.attacker


@dataclass(frozen=True)
class Case:
    """An attack.

    Attributes:
        name: name of the attack.
        attack: carries out the attack and returns the findings, normally none.
        always: whether every selection of attacks includes it.
    """

    name: str
    attack: Callable[[Scene], Iterable[str]]
    always: bool = False


Who = Callable[[Scene], Door]


def asking(  # noqa: PLR0917 - a request
    name: str,
    who: Who,
    method: str,
    path: str,
    body: Any = None,
    wanted: frozenset[int] = REFUSED,
    headers: dict[str, str] | None = None,
) -> Case:
    """Return an attack of one request, which must be answered by one of the given codes."""

    def attack(scene: Scene) -> list[str]:
        return wrong(who(scene).ask(method, path, body, headers), wanted)

    return Case(name, attack)


def wrong(answer: Answer, wanted: frozenset[int] = REFUSED) -> list[str]:
    """Return the finding about an answer; empty: none."""
    found = problem(answer, wanted)
    return [found] if found else []


def attacker(scene: Scene) -> Door:
    """Return the administrator of the attacking tenant."""
    return scene.attacker


def lowly(scene: Scene) -> Door:
    """Return the user with few permissions."""
    return scene.lowly


def anonymous(scene: Scene) -> Door:
    """Nobody."""
    return scene.world.anonymous


def binding(name: str, role: str, user: str) -> dict[str, Any]:
    """Return a ClusterRoleBinding to a user."""
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


def prepare(world: World, tenant: str) -> Door:
    """Create the user with few permissions, and the targets of attacks."""
    for place, body in (
        (f"{RBAC}/clusterroles", {"metadata": {"name": "lowly"}, "rules": LOWLY_RIGHTS}),
        (f"{RBAC}/clusterrolebindings", binding("lowly", "lowly", "lowly")),
        (f"{DEFAULT}/secrets", {"metadata": {"name": "mine"}}),
        (f"{DEFAULT}/secrets", {"metadata": {"name": "other"}}),
        (f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}}),
    ):
        made = world.attacker.ask("POST", place, body)
        if made.status not in (201, 409):
            raise RuntimeError(f"{place}: {made.status} {made.message}")
    return world.user(tenant, "lowly")
