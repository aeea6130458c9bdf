"""Custom resources that replace built-in ones, or use a foreign group."""

from collections.abc import Iterator, Sequence
from typing import Any

from hack.attacks.case import RBAC, Case, Scene, Who, attacker, lowly, wrong
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin

PLACE = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPROVAL = "api-approved.kubernetes.io"
REFUSED = frozenset({400, 403, 409, 422})
PROTECTED = (
    "k8s.io", "kubernetes.io", "x.k8s.io", "x.kubernetes.io", "apps.k8s.io", "rbac.authorization.k8s.io", "certificates.k8s.io",
    "admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
    "metrics.k8s.io", "custom.metrics.k8s.io", "gateway.networking.k8s.io", "snapshot.storage.k8s.io", "a.b.c.k8s.io", "core.k8s.io",
)  # fmt: skip
ILL_NAMED = (
    "",
    ".",
    "..",
    "apps.",
    ".apps",
    "../v1",
    "API.example.com",
    "a_b.example.com",
    "v1",
    "~vcsync",
    "tenants",
    "a\0b.example.com",
)
ODD_PLURALS = ("~claims", "..", "a/b", "clusterroles/../x", "A", "", "x" * 64, "a\0", "secrets\n")
APPROVED = "https://github.com/kubernetes/enhancements/pull/1111"


def definition(
    group: str, plural: str, *, version: str = "v1", approved: str = "", scope: str = "Cluster"
) -> dict[str, Any]:
    """Return a definition whose objects may have any fields."""
    kind = "".join(each for each in plural.title() if each.isalnum()) or "X"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"},
        "scope": scope,
        "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
    }
    annotations = {APPROVAL: approved} if approved else {}
    return {"metadata": {"name": f"{plural}.{group}", "annotations": annotations}, "spec": spec}


def cases() -> Sequence[Case]:
    """Shadow every built-in kind, as an administrator and as a user who may only define resources."""
    kinds = {
        (each.group, each.plural): each for each in builtin.resources() if each.group and "." in each.group
    }
    found = []
    for each in kinds.values():
        name = f"{each.plural}.{each.group}"
        found += [
            _shadowing(f"{name} {approval or 'unannotated'}", attacker, each, version="v9", approved=approval)
            for approval in ("unapproved", "")
        ]
        found.append(_shadowing(f"{name} approved", lowly, each, version=each.version, approved=APPROVED))
    found += [_defining(f"group {group}", group, "things") for group in PROTECTED]
    found += [_defining(f"group {group!r}", group, "things") for group in ILL_NAMED if group != "tenants"]
    return found + [_defining(f"plural {plural!r}", "odd.example.com", plural) for plural in ODD_PLURALS]


def _defining(name: str, group: str, plural: str) -> Case:
    def attack(scene: Scene) -> list[str]:
        return wrong(scene.attacker.ask("POST", PLACE, definition(group, plural)), REFUSED)

    return Case(name, attack)


def _shadowing(name: str, who: Who, resource: Resource, *, version: str, approved: str) -> Case:
    """Define a built-in resource; the built-in kind must still be served afterwards, and its objects must remain."""
    place = f"/apis/{resource.group}/{resource.version}/{resource.plural}"

    def attack(scene: Scene) -> Iterator[str]:
        # Tenants without nodes of their own are refused some kinds, as they must be afterwards.
        before = scene.attacker.ask("GET", place)
        roles = _roles(scene)
        made = who(scene).ask(
            "POST", PLACE, definition(resource.group, resource.plural, version=version, approved=approved)
        )
        yield from wrong(made, REFUSED | {201} if approved == APPROVED else REFUSED)
        if made.status == 201:
            body = {
                "apiVersion": f"{resource.group}/{version}",
                "kind": resource.plural.title(),
                "metadata": {"name": "shadow"},
                "rules": 5,
            }
            scene.attacker.ask("POST", f"/apis/{resource.group}/{version}/{resource.plural}", body)
            scene.attacker.ask("DELETE", f"{PLACE}/{resource.plural}.{resource.group}")
        if "list" in resource.verbs:
            after = scene.attacker.ask("GET", place)
            served = after.status == 403 or after.json["kind"].startswith(resource.kind)
            if before.status not in (200, 403) or after.status != before.status or not served:
                was = before.message[:50]
                yield f"{place} serves something else: {after.status} {after.message} (before: {was})"
        if _roles(scene) != roles:
            yield "ClusterRoles have gone"

    return Case(name, attack)


def _roles(scene: Scene) -> int:
    return len(scene.attacker.ask("GET", f"{RBAC}/clusterroles?limit=500").json["items"])
