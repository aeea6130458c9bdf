"""TenantPolicies in a control plane: they hold on every way of writing, and follow changes of the store."""

import pytest

from vcsync.apiserver.admission.tenant_policies.following import POLICIES, TENANT_OBJECTS
from vcsync.apiserver.tenants.records import TENANTS

PODS = "/api/v1/namespaces/n/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/n/deployments"
GOOD = "ghcr.io/team/web"


def pod(image=GOOD, name="p", **spec):
    containers = [{"name": "c", "image": image}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "automountServiceAccountToken": False, **spec},
    }


def deployment(replicas=1, **spec):
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod(**spec)["spec"]}
    return {
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


MERGE = {"content_type": "application/merge-patch+json"}
STRATEGIC = {"content_type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content_type": "application/json-patch+json"}
APPLY = {"content_type": "application/apply-patch+yaml"}
BAD = {"spec": {"containers": [{"name": "c", "image": "nginx"}]}}
APPLIED = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, **BAD}
EPHEMERAL = {"spec": {"ephemeralContainers": [{"name": "e", "image": "nginx"}]}}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", PODS, pod("nginx"), {}),
        ("POST", f"{PODS}?dryRun=All", pod("nginx"), {}),
        ("POST", PODS, {**pod("nginx"), "metadata": {"generateName": "p-"}}, {}),
        ("POST", PODS, pod(name="x", initContainers=[{"name": "i", "image": "nginx"}]), {}),
        ("POST", PODS, pod(name="x", volumes=[{"name": "v", "image": {"reference": "nginx"}}]), {}),
        ("PATCH", f"{PODS}/p", BAD, STRATEGIC),
        ("PATCH", f"{PODS}/p", BAD, MERGE),
        ("PATCH", f"{PODS}/p", [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx"}],
         JSON_PATCH),
        ("PATCH", f"{PODS}/other?fieldManager=m", APPLIED, APPLY),
        ("PATCH", f"{PODS}/p?fieldManager=m&force=true", {**APPLIED, "metadata": {"name": "p"}}, APPLY),
        ("PATCH", f"{PODS}/p/ephemeralcontainers", EPHEMERAL, STRATEGIC),
    ],
)  # fmt: skip
async def test_no_way_of_writing_brings_another_image(plane, method, path, body, headers):
    await plane.policy(imageRegistries=["ghcr.io/team"])
    assert (await plane("POST", PODS, pod())).status == 201
    answer = await plane(method, path, body, **headers)
    assert answer.status == 403, answer.body
    assert "TenantPolicy 'p' of the operator allows images of ghcr.io/team only" in answer["message"]


async def test_an_update_brings_no_other_image(plane):
    await plane.policy(imageRegistries=["ghcr.io/team"])
    made = (await plane("POST", PODS, pod())).body
    made["spec"]["containers"][0]["image"] = "nginx"
    assert (await plane("PUT", f"{PODS}/p", made)).status == 403
    made["spec"]["containers"][0]["image"] = f"{GOOD}:2"
    assert (await plane("PUT", f"{PODS}/p", made)).status == 200


async def test_pods_that_exist_keep_working(plane):
    assert (await plane("POST", PODS, pod("nginx", hostNetwork=True))).status == 201
    await plane.policy(imageRegistries=["ghcr.io"], podSecurity={"level": "restricted"})
    answer = await plane("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, **MERGE)
    assert answer.status == 200
    status = {"status": {"phase": "Running"}}
    assert (await plane("PATCH", f"{PODS}/p/status", status, **MERGE)).status == 200
    assert (await plane("DELETE", f"{PODS}/p")).status == 200


@pytest.mark.parametrize(
    "labels",
    [{}, {"pod-security.kubernetes.io/enforce": "privileged"}],
)
async def test_the_level_is_a_floor_that_labels_of_namespaces_cannot_lower(plane, labels):
    namespace = {"metadata": {"labels": labels}}
    assert (await plane("PATCH", "/api/v1/namespaces/n", namespace, **MERGE)).status == 200
    await plane.policy(podSecurity={"level": "baseline", "version": "v1.36"})
    answer = await plane("POST", PODS, pod(hostNetwork=True))
    assert answer.status == 403
    assert 'requires PodSecurity "baseline:v1.36": host namespaces' in answer["message"]
    # The tenant may ask for more.
    stricter = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await plane("PATCH", "/api/v1/namespaces/n", stricter, **MERGE)
    assert 'violates PodSecurity "restricted:latest"' in (await plane("POST", PODS, pod()))["message"]


async def test_templates_get_a_warning(plane):
    await plane.policy(imageRegistries=["ghcr.io"], podSecurity={"level": "baseline"})
    made = await plane("POST", DEPLOYMENTS, deployment(image="nginx", hostPID=True))
    assert made.status == 201
    assert len([each for each in made.warnings if "Pods of this template will be refused" in each]) == 2
    assert not (await plane("POST", DEPLOYMENTS, {**deployment(), "metadata": {"name": "e"}})).warnings


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", DEPLOYMENTS, {**deployment(), "metadata": {"name": "e"}}, {}, 403),
        ("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2}}, MERGE, 403),
        ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 2}}, MERGE, 403),
        ("PUT", f"{DEPLOYMENTS}/d", deployment(3), {}, 403),
        ("PATCH", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}}, MERGE, 200),
        ("GET", f"{DEPLOYMENTS}/d", None, {}, 200),
        ("DELETE", f"{DEPLOYMENTS}/d", None, {}, 200),
        ("DELETE", DEPLOYMENTS, None, {}, 200),
        ("POST", "/apis/apps/v1/namespaces/n/replicasets", deployment(), {}, 201),
    ],
)
async def test_a_forbidden_resource_can_be_read_and_deleted_only(plane, method, path, body, headers, status):
    assert (await plane("POST", DEPLOYMENTS, deployment())).status == 201
    await plane.policy(forbiddenResources=[{"apiGroups": ["apps"], "resources": ["deployments"]}])
    answer = await plane(method, path, body, **headers)
    assert answer.status == status, answer.body
    if status == 403:
        assert "TenantPolicy 'p' of the operator forbids deployments" in answer["message"]


async def test_old_versions_of_a_forbidden_kind_are_forbidden_too(plane):
    await plane.policy(
        forbiddenResources=[{"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}]
    )
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}}
    for version in ("v1", "v2"):
        path = f"/apis/autoscaling/{version}/namespaces/n/horizontalpodautoscalers"
        assert (await plane("POST", path, body)).status == 403


async def test_a_forbidden_object_that_is_being_deleted_loses_its_finalizers(plane):
    body = deployment()
    body["metadata"]["finalizers"] = ["example.org/wait"]
    assert (await plane("POST", DEPLOYMENTS, body)).status == 201
    await plane.policy(forbiddenResources=[{"apiGroups": ["apps"], "resources": ["deployments"]}])
    assert (await plane("DELETE", f"{DEPLOYMENTS}/d")).status == 200
    change = {"metadata": {"finalizers": None}}
    assert (await plane("PATCH", f"{DEPLOYMENTS}/d", change, **MERGE)).status == 200
    assert (await plane("GET", f"{DEPLOYMENTS}/d")).status == 404


async def test_required_labels_are_there_from_the_beginning_and_stay(plane):
    assert (await plane("POST", PODS, pod(name="before"))).status == 201
    labels = [{"key": "team", "values": ["red"]}, {"key": "any"}]
    await plane.policy(
        requiredLabels=[{"apiGroups": [""], "resources": ["pods", "namespaces"], "labels": labels}]
    )
    answer = await plane("POST", PODS, pod())
    assert answer.status == 403
    assert "requires label team, one of red" in answer["message"]
    body = pod()
    body["metadata"]["labels"] = {"team": "red", "any": ""}
    assert (await plane("POST", PODS, body)).status == 201
    for change in ({"team": "blue"}, {"team": None}, {"any": None}):
        patch = {"metadata": {"labels": change}}
        assert (await plane("PATCH", f"{PODS}/p", patch, **MERGE)).status == 403
    change = {"metadata": {"annotations": {"a": "b"}}}
    assert (await plane("PATCH", f"{PODS}/before", change, **MERGE)).status == 200
    assert (await plane("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})).status == 201
    assert (await plane("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})).status == 403


def validation(expression, plural="deployments", operations=("CREATE", "UPDATE"), **more):
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": [plural],
        "operations": list(operations),
    }
    return {"resourceRules": [rule], "expression": expression, **more}


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({}, 403, "denies the request: failed expression: object.spec.replicas < 3"),
        ({"message": "too many"}, 403, "denies the request: too many"),
        ({"messageExpression": "'%d' .format([object.spec.replicas])"}, 403, "denies the request: 5"),
        ({"reason": "Invalid"}, 422, "failed expression"),
    ],
)
async def test_expressions_must_be_true(plane, given, code, text):
    await plane.policy(validations=[validation("object.spec.replicas < 3", **given)])
    assert (await plane("POST", DEPLOYMENTS, deployment())).status == 201
    answer = await plane("PUT", f"{DEPLOYMENTS}/d", deployment(5))
    assert answer.status == code
    assert text in answer["message"]


async def test_an_expression_that_fails_refuses_the_write(plane):
    await plane.policy(validations=[validation("object.spec.nothing > 3")])
    answer = await plane("POST", DEPLOYMENTS, deployment())
    assert answer.status == 403
    assert "no such key: nothing" in answer["message"]


async def test_expressions_apply_to_deletions_too(plane):
    await plane.policy(validations=[validation("oldObject.metadata.name != 'd'", operations=["DELETE"])])
    assert (await plane("POST", DEPLOYMENTS, deployment())).status == 201
    assert (await plane("DELETE", f"{DEPLOYMENTS}/d")).status == 403


async def test_a_policy_that_cannot_be_read_stops_writes_and_nothing_else(plane):
    await plane.policy(tenants={"names": ["a"]}, podSecurity={"level": "unheard-of"})
    answer = await plane("POST", PODS, pod())
    assert answer.status == 403
    assert "cannot be enforced, so nothing is written" in answer["message"]
    assert (await plane("GET", PODS)).status == 200
    assert (await plane("POST", f"/tenants/b{PODS}", pod())).status == 201


async def test_tenants_are_selected_by_name_by_label_and_all_at_once(plane):
    other = f"/tenants/b{PODS}?dryRun=All"
    own = f"/tenants/a{PODS}?dryRun=All"

    async def refused():
        return [(await plane("POST", path, pod("nginx"))).status == 403 for path in (own, other)]

    assert await refused() == [False, False]
    await plane.policy(imageRegistries=["ghcr.io"])
    assert await refused() == [True, True]
    await plane.policy(imageRegistries=["ghcr.io"], tenants={"names": ["b"]})
    assert await refused() == [False, True]
    await plane.policy(imageRegistries=["ghcr.io"], tenants={"selector": {"matchLabels": {"plan": "gold"}}})
    assert await refused() == [False, False]
    await plane.put(f"{TENANT_OBJECTS}a", {"metadata": {"name": "a", "labels": {"plan": "gold"}}})
    assert await refused() == [True, False]
    await plane.put(f"{TENANT_OBJECTS}a", {"metadata": {"name": "a", "labels": {"plan": "silver"}}})
    assert await refused() == [False, False]
    await plane.policy(imageRegistries=["ghcr.io"])
    await plane.put(f"{TENANTS}b", {"name": "b", "nodes": "own"})
    assert await refused() == [True, False]
    await plane.put(f"{TENANTS}b", None)
    assert await refused() == [True, True]
    await plane.put(f"{POLICIES}p", None)
    assert await refused() == [False, False]
    assert plane.policies.idle


async def test_a_tenant_cannot_write_policies_for_itself_or_others(plane):
    """A definition of the same name in a tenant is a kind of its own, which nothing reads."""
    await plane.policy(imageRegistries=["ghcr.io"])
    key = POLICIES.replace("system/", "a/", 1)
    await plane.put(f"{key}p", {"metadata": {"name": "p", "uid": "x"}, "spec": {}})
    assert (await plane("POST", PODS, pod("nginx"))).status == 403


async def test_writes_wait_until_the_policies_can_be_read(plane, monkeypatch):
    await plane.policy(imageRegistries=["ghcr.io"])
    plane.policies.forget()

    async def fails(*_, **__):
        raise OSError("no store")

    with monkeypatch.context() as patched:
        patched.setattr(plane.store, "range", fails)
        with pytest.raises(OSError, match="no store"):
            await plane.policies.of("a")
    assert not plane.policies.idle
    assert (await plane("POST", PODS, pod("nginx"))).status == 403


async def test_a_change_of_a_status_does_not_read_the_policies_again(plane):
    await plane.policy(imageRegistries=["ghcr.io"])
    known = await plane.policies.load()
    metadata = {"name": "p", "uid": "uid", "generation": 1}
    spec, status = {"imageRegistries": ["ghcr.io"]}, {"selectedTenants": 1}
    await plane.put(f"{POLICIES}p", {"metadata": metadata, "spec": spec, "status": status})
    assert await plane.policies.load() is known


async def test_the_default_runtime_class_is_set_where_a_pod_names_none(plane):
    for name in ("sandboxed", "other"):
        body = {"metadata": {"name": name}, "handler": "x"}
        assert (await plane("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)).status == 201
    await plane.policy(defaultRuntimeClassName="sandboxed")
    made = await plane("POST", PODS, pod())
    assert made["spec.runtimeClassName"] == "sandboxed"
    made = await plane("POST", PODS, pod(name="q", runtimeClassName="other"))
    assert made["spec.runtimeClassName"] == "other"


SERVICES = "/api/v1/namespaces/n/services"


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


@pytest.mark.parametrize(
    ("policy", "spec", "text"),
    [
        ({}, {}, ""),
        ({}, {"type": "NodePort"}, ""),
        ({}, {"externalIPs": ["10.0.0.1"]}, "allows no spec.externalIPs"),
        ({"externalIPs": "Allow"}, {"externalIPs": ["10.0.0.1"]}, ""),
        ({}, {"type": "LoadBalancer", "loadBalancerIP": "10.0.0.1"}, "allows no spec.loadBalancerIP"),
        ({"loadBalancerIP": "Allow"}, {"type": "LoadBalancer", "loadBalancerIP": "10.0.0.1"}, ""),
        ({"types": ["ClusterIP"]}, {}, ""),
        ({"types": ["ClusterIP"]}, {"type": "NodePort"}, "allows Services of type ClusterIP only"),
        (
            {"types": ["ClusterIP"]},
            {"type": "ExternalName", "externalName": "a.org", "ports": []},
            "ClusterIP only",
        ),
        ({"nodePorts": "Refuse"}, {"type": "NodePort"}, "allows no node ports"),
        (
            {"nodePorts": "Refuse"},
            {"type": "LoadBalancer"},
            "set spec.allocateLoadBalancerNodePorts to false",
        ),
        ({"nodePorts": "Refuse"}, {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, ""),
    ],
)
async def test_services_are_limited(plane, policy, spec, text):
    await plane.policy(servicePolicy=policy)
    answer = await plane("POST", SERVICES, service(**spec))
    assert answer.status == (403 if text else 201), answer.body
    assert text in (answer.body.get("message") or "")
    # What refuses a creation refuses the way over an update too.
    await plane.policy()
    await plane("POST", SERVICES, service())
    await plane.policy(servicePolicy=policy)
    if text:
        answer = await plane("PATCH", f"{SERVICES}/s", {"spec": spec}, **MERGE)
        assert answer.status == 403, answer.body


async def test_services_that_exist_can_change_otherwise(plane):
    given = {"type": "LoadBalancer", "externalIPs": ["10.0.0.1"], "loadBalancerIP": "10.0.0.2"}
    assert (await plane("POST", SERVICES, service(**given))).status == 201
    await plane.policy(servicePolicy={"types": ["ClusterIP"], "nodePorts": "Refuse"})
    change = {"spec": {"selector": {"a": "b"}}}
    assert (await plane("PATCH", f"{SERVICES}/s", change, **MERGE)).status == 200
    change = {"spec": {"externalIPs": ["10.0.0.1", "10.0.0.9"]}}
    assert (await plane("PATCH", f"{SERVICES}/s", change, **MERGE)).status == 403
    assert (await plane("PATCH", f"{SERVICES}/s", {"spec": {"type": "NodePort"}}, **MERGE)).status == 403
