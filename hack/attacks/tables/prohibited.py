"""Ways to kinds that a tenant does not have: none leads there, and no form of discovery shows them.

They are those that tenants with virtual nodes lack, and Tenants, which the operator alone manages.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hack.attacks.case import MERGE, Case, Scene, asking, attacker, wrong
from hack.attacks.judge import REFUSED
from vcsync.apiserver.tenants.builtin_resources import HIDDEN

NODES = "/api/v1/nodes"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}}
FORBIDDEN = frozenset({403})
SYNCER = "system:serviceaccount:vcsync-system:vcsync-syncer"
SCHEDULER = "system:serviceaccount:vcsync-system:vcsync-nsscheduler"
PATHS = {
    "own path": "/tenants/{tenant}{prefix}/{plural}",
    "Arktos' path": "{prefix}/tenants/{tenant}/{plural}",
    "old watch path": "{prefix}/watch/{plural}",
    "a watch": "{prefix}/{plural}?watch=1&timeoutSeconds=1",
    "one object": "{prefix}/{plural}/x",
    "its status": "{prefix}/{plural}/x/status",
    "its scale": "{prefix}/{plural}/x/scale",
    "a page": "{prefix}/{plural}?limit=1",
    "at any version": "{prefix}/{plural}?resourceVersion=0",
    "all, in the own tenant's path": "/tenants/{tenant}{prefix}/tenants/all/{plural}",
    "an encoded letter": "{prefix}/%{code:02x}{rest}",
    "an empty segment": "{prefix}//{plural}",
    "a slash at the end": "{prefix}/{plural}/",
    "upper case": "{prefix}/{upper}",
}  # fmt: skip
WRITES = {
    "an update": ("PUT", NODES + "/own", NODE, None),
    "a merge patch": ("PATCH", NODES + "/own", {"spec": {"unschedulable": True}}, MERGE),
    "a strategic patch": ("PATCH", NODES + "/own", {"spec": {"taints": []}}, STRATEGIC),
    "an apply request": ("PATCH", NODES + "/own?fieldManager=a&force=true", NODE, APPLY),
    "an apply request to a new one": ("PATCH", NODES + "/new?fieldManager=a", NODE | {"metadata": {"name": "new"}}, APPLY),
    "a deletion": ("DELETE", NODES + "/own", None, None),
    "a deletion of all": ("DELETE", NODES, None, None),
    "a deletion by label": ("DELETE", NODES + "?labelSelector=a!%3Db", None, None),
    "a deletion that orphans": ("DELETE", NODES + "/own?propagationPolicy=Orphan", None, None),
    "a dry run": ("POST", NODES + "?dryRun=All", NODE, None),
    "a generated name": ("POST", NODES, {"metadata": {"generateName": "own-"}}, None),
    "a virtual node": ("POST", NODES, {"metadata": {"name": "n.r1", "labels": {"tenancy.x-k8s.io/virtual-node": "true"}}}, None),
    "a status": ("PATCH", NODES + "/own/status", {"status": {"allocatable": {"cpu": "9"}}}, MERGE),
    "a whole status": ("PUT", NODES + "/own/status", NODE, None),
    "a proxy": ("GET", NODES + "/own/proxy/pods", None, None),
    "a proxy of another scheme": ("GET", NODES + "/https:own:10250/proxy/pods", None, None),
    "a proxy that posts": ("POST", NODES + "/own/proxy/run/default/web/c", {}, None),
    "in the tenant's path": ("POST", "/tenants/{tenant}" + NODES, NODE, None),
    "in Arktos' path": ("POST", "/api/v1/tenants/{tenant}/nodes", NODE, None),
    "in a namespace": ("POST", "/api/v1/namespaces/default/nodes", NODE, None),
    "an encoded letter": ("POST", "/api/v1/%6eodes", NODE, None),
    "by a method override": ("GET", NODES + "/x", None, {"X-HTTP-Method-Override": "DELETE"}),
}  # fmt: skip
TENANT: dict[str, Any] = {"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "own"}, "spec": {}}
ACTING = {
    "the syncer": {"Impersonate-User": SYNCER},
    "the syncer with its groups": {"Impersonate-User": SYNCER, "Impersonate-Group": "system:serviceaccounts:vcsync-system"},
    "the namespace scheduler": {"Impersonate-User": SCHEDULER},
    "a node": {"Impersonate-User": "system:node:own", "Impersonate-Group": "system:nodes"},
    "the operator": {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters"},
    "the node controller": {"Impersonate-User": "system:serviceaccount:kube-system:node-controller"},
    "the API server": {"Impersonate-User": "system:apiserver"},
    "the syncer in other letters": {"Impersonate-User": SYNCER.upper()},
    "the syncer behind a space": {"Impersonate-User": f"{SYNCER}\u2003"},
}  # fmt: skip
DOCUMENTS = {
    "the list": ("/apis/{group}/v1", "application/json"),
    "the list in YAML": ("/apis/{group}/v1", "application/yaml"),
    "the aggregated list": ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    "the earlier aggregated list": ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
    "the list of another tenant": ("/apis/{group}/v1?tenant=system", "application/json"),
    "OpenAPI 2": ("/openapi/v2", "application/json"),
    "OpenAPI 2 in protobuf": ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
    "OpenAPI 3": ("/openapi/v3/apis/{group}/v1", "application/json"),
    "OpenAPI 3 with an old hash": ("/openapi/v3/apis/{group}/v1?hash=0", "application/json"),
    "in the tenant's path": ("/tenants/{tenant}/apis/{group}/v1", "application/json"),
}  # fmt: skip


TENANTS: dict[str, tuple[str, str, Any, dict[str, str] | None]] = {
    "the list": ("GET", "/api/v1/tenants", None, None),
    "a watch": ("GET", "/api/v1/tenants?watch=1&timeoutSeconds=1", None, None),
    "the old watch path": ("GET", "/api/v1/watch/tenants", None, None),
    "itself": ("GET", "/api/v1/tenants/{tenant}", None, None),
    "another": ("GET", "/api/v1/tenants/victim", None, None),
    "another's status": ("GET", "/api/v1/tenants/victim/status", None, None),
    "another's end": ("PUT", "/api/v1/tenants/victim/finalize", {"spec": {"finalizers": []}}, None),
    "a creation": ("POST", "/api/v1/tenants", TENANT, None),
    "a deletion": ("DELETE", "/api/v1/tenants/victim", None, None),
    "a deletion of all": ("DELETE", "/api/v1/tenants", None, None),
    "a patch": ("PATCH", "/api/v1/tenants/{tenant}", {"spec": {"weight": 1000}}, MERGE),
    "an apply request": ("PATCH", "/api/v1/tenants/{tenant}?fieldManager=a", TENANT, APPLY),
    "the own path": ("GET", "/tenants/{tenant}/api/v1/tenants", None, None),
    "the operator's path": ("GET", "/tenants/system/api/v1/tenants", None, None),
    "the operator in Arktos' path": ("GET", "/api/v1/tenants/system/tenants", None, None),
    "all in Arktos' path": ("GET", "/api/v1/tenants/all/tenants", None, None),
    "the operator behind the own path": ("GET", "/tenants/{tenant}/api/v1/tenants/system/tenants", None, None),
    "a namespace": ("GET", "/api/v1/namespaces/default/tenants", None, None),
    "an encoded letter": ("GET", "/api/v1/%74enants", None, None),
    "an encoded slash": ("GET", "/api/v1/tenants%2fvictim", None, None),
    "an empty segment": ("GET", "/api/v1//tenants", None, None),
    "a slash at the end": ("GET", "/api/v1/tenants/", None, None),
    "upper case": ("GET", "/api/v1/Tenants", None, None),
    "a tenant in the query": ("GET", "/api/v1/tenants?tenant=system", None, None),
    "the prefix of groups": ("GET", "/apis/v1/tenants", None, None),
    "vcsync's group": ("GET", "/apis/tenancy.x-k8s.io/v1alpha1/tenants", None, None),
    "vcsync's group in the operator's path": ("GET", "/tenants/system/apis/tenancy.x-k8s.io/v1alpha1/tenants", None, None),
    "the operator's user": ("GET", "/api/v1/tenants", None, {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters"}),
    "the operator's program": ("GET", "/api/v1/tenants", None, {"Impersonate-User": "system:serviceaccount:vcsync-system:vcsync-tenants"}),
}  # fmt: skip


def cases() -> Sequence[Case]:
    """Ask for each hidden kind by each path and document, write Nodes in each way, and look for Tenants."""
    found = [_asked(group, plural, what) for group, plural in HIDDEN for what in PATHS]
    found += [_written(what) for what in WRITES]
    found += [_acted(what) for what in ACTING]
    found += [_managed(what) for what in TENANTS]
    return found + [_shown(group, plural, what) for group, plural in HIDDEN for what in DOCUMENTS]


def _asked(group: str, plural: str, what: str) -> Case:
    prefix = f"/apis/{group}/v1"

    def attack(scene: Scene) -> Iterator[str]:
        words = {"code": ord(plural[0]), "rest": plural[1:], "upper": plural.upper(), "plural": plural}
        path = PATHS[what].format(tenant=scene.tenant, prefix=prefix, **words)
        body = {"metadata": {"name": "x"}, "spec": {}}
        for method, sent in (("GET", None), ("POST", body), ("DELETE", None)):
            yield from wrong(scene.attacker.ask(method, path, sent), frozenset({400, 403, 404}))

    return Case(f"{plural} by {what}", attack)


def _written(what: str) -> Case:
    method, path, body, headers = WRITES[what]

    def attack(scene: Scene) -> Iterator[str]:
        made = scene.world.operator.ask("POST", f"/tenants/{scene.tenant}{NODES}", NODE)
        yield from wrong(made, frozenset({201, 409}))
        before = scene.attacker.ask("GET", f"{NODES}/own").body
        yield from wrong(
            scene.attacker.ask(method, path.format(tenant=scene.tenant), body, headers), FORBIDDEN | {404}
        )
        listed = scene.attacker.ask("GET", NODES)
        if [each["metadata"]["name"] for each in listed.json["items"]] != ["own"]:
            yield "the tenant has other nodes than before"
        if scene.attacker.ask("GET", f"{NODES}/own").body != before:
            yield "the node has changed"

    return Case(f"a Node by {what}", attack)


def _acted(what: str) -> Case:
    return asking(
        f"a Node as {what}", attacker, "POST", NODES, {"metadata": {"name": "acted"}}, REFUSED, ACTING[what]
    )


def _managed(what: str) -> Case:
    method, path, body, headers = TENANTS[what]

    def attack(scene: Scene) -> Iterator[str]:
        answer = scene.attacker.ask(method, path.format(tenant=scene.tenant), body, headers)
        yield from wrong(answer, frozenset({400, 403, 404}))
        if b'"weight"' in answer.body:
            yield "it shows a Tenant"

    return Case(f"Tenants by {what}", attack)


def _shown(group: str, plural: str, what: str) -> Case:
    path, accepted = DOCUMENTS[what]

    def attack(scene: Scene) -> Iterator[str]:
        place = path.format(group=group, tenant=scene.tenant)
        answer = scene.attacker.ask("GET", place, headers={"Accept": accepted})
        yield from wrong(answer, frozenset({200, 406}))
        if f"/{plural}".encode() in answer.body or f'"{plural}"'.encode() in answer.body:
            yield f"it shows {plural}"

    return Case(f"{plural} in {what}", attack)
