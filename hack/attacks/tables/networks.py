"""Ways to be rid of the network `default`, to change a network, and to reach those of another tenant: none works."""

from collections.abc import Iterator, Sequence
from typing import Any

from hack.attacks.case import JSON_PATCH, MERGE, Case, Scene, wrong

NETWORKS = "/apis/tenancy.x-k8s.io/v1alpha1/networks"
DEFAULT = f"{NETWORKS}/default"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
NETWORK: dict[str, Any] = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "Network",
    "metadata": {"name": "default"},
    "spec": {"type": "Flat"},
}
VPC = {"type": "VPC", "vpcID": "taken"}
CODES = frozenset({400, 403, 404, 405, 409, 415, 422})
ATTACKS = {
    "a deletion": ("DELETE", DEFAULT, None, None),
    "a deletion in the tenant's path": ("DELETE", "/tenants/{tenant}" + DEFAULT, None, None),
    "a deletion in Arktos' path": ("DELETE", "/apis/tenancy.x-k8s.io/v1alpha1/tenants/{tenant}/networks/default", None, None),
    "a deletion by an encoded name": ("DELETE", f"{NETWORKS}/%64efault", None, None),
    "a deletion that orphans": ("DELETE", f"{DEFAULT}?propagationPolicy=Orphan", None, None),
    "a deletion in the foreground": ("DELETE", DEFAULT, {"propagationPolicy": "Foreground"}, None),
    "a deletion without grace": ("DELETE", f"{DEFAULT}?gracePeriodSeconds=0", None, None),
    "a dry run of a deletion": ("DELETE", f"{DEFAULT}?dryRun=All", None, None),
    "a deletion of all": ("DELETE", NETWORKS, None, None),
    "a deletion by field": ("DELETE", f"{NETWORKS}?fieldSelector=metadata.name%3Ddefault", None, None),
    "a deletion of its status": ("DELETE", f"{DEFAULT}/status", None, None),
    "another type by a merge patch": ("PATCH", DEFAULT, {"spec": VPC}, MERGE),
    "another type by a JSON patch": ("PATCH", DEFAULT, [{"op": "replace", "path": "/spec", "value": VPC}], JSON_PATCH),
    "another type by apply": ("PATCH", f"{DEFAULT}?fieldManager=a&force=true", NETWORK | {"spec": VPC}, APPLY),
    "another type by an update": ("PUT", DEFAULT, NETWORK | {"spec": VPC}, None),
    "a VPC without a type": ("PATCH", DEFAULT, {"spec": {"vpcID": "taken"}}, MERGE),
    "no spec": ("PATCH", DEFAULT, {"spec": None}, MERGE),
    "a name of two labels": ("POST", NETWORKS, NETWORK | {"metadata": {"name": "a.b"}}, None),
    "a name that is too long for a Service": ("POST", NETWORKS, NETWORK | {"metadata": {"name": "n" * 55}}, None),
    "a generated name that is too long": ("POST", NETWORKS, NETWORK | {"metadata": {"generateName": "n" * 55}}, None),
    "a network in a namespace": ("POST", "/apis/tenancy.x-k8s.io/v1alpha1/namespaces/default/networks", NETWORK, None),
    "networks of another tenant": ("GET", "/tenants/victim" + NETWORKS, None, None),
    "networks of all tenants": ("GET", "/tenants/all" + NETWORKS, None, None),
    "networks of the operator": ("GET", "/tenants/system" + NETWORKS, None, None),
    "a status of another tenant's": ("PATCH", f"/tenants/victim{DEFAULT}/status", {"status": {"phase": "Failed"}}, MERGE),
}  # fmt: skip


def cases() -> Sequence[Case]:
    """Return one case for each attack."""
    return [_attacked(what) for what in ATTACKS]


def _attacked(what: str) -> Case:
    method, path, body, headers = ATTACKS[what]

    def attack(scene: Scene) -> Iterator[str]:
        yield from wrong(scene.attacker.ask("POST", NETWORKS, NETWORK), frozenset({201, 409}))
        before = scene.attacker.ask("GET", DEFAULT).body
        yield from wrong(scene.attacker.ask(method, path.format(tenant=scene.tenant), body, headers), CODES)
        if scene.attacker.ask("GET", DEFAULT).body != before:
            yield "the default network has changed"

    return Case(f"{what} on a network", attack)
