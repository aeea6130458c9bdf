"""Writes through subresources of Pods, evictions and approvals: changed and unchanged fields, and refusals."""

import base64
from functools import partial
from typing import Any

import pytest
from asked_plane import Everybody, ask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.request.scope import Admission

CORE = "/api/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


async def pod(api: Any, name: str = "p", **spec: Any) -> dict[str, Any]:
    body = {
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"kept": "yes"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    made = await api("POST", f"{CORE}/pods", body)
    assert made.status == 201, made.body
    found: dict[str, Any] = made.body
    return found


async def status(api: Any, path: str, change: dict[str, Any]) -> dict[str, Any]:
    done = await api("PATCH", f"{path}/status", {"status": change}, **MERGE)
    assert done.status == 200, done.body
    found: dict[str, Any] = done.body
    return found


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    (one,) = [each for each in found["status"]["conditions"] if each["type"] == kind]
    entry: dict[str, Any] = one
    return entry


# ---- bindings ----------------------------------------------------------------------------


def binding(name: str = "p", node: str = "n", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"metadata": metadata, "target": {"kind": "Node", "name": node, **more}}


async def test_a_binding_sets_the_node_and_the_time(api: Any) -> None:
    made = await pod(api)
    metadata = {"annotations": {"x": "y"}, "labels": {"c": "d"}, "uid": made["metadata"]["uid"]}
    done = await api("POST", f"{CORE}/pods/p/binding", binding(metadata=metadata))
    assert (done.status, done["status"]) == (201, "Success")
    found = (await api("GET", f"{CORE}/pods/p")).body
    assert found["spec"]["nodeName"] == "n"
    assert found["metadata"]["annotations"] == {"kept": "yes", "x": "y"}
    assert found["metadata"]["labels"] == {"a": "b", "c": "d"}
    entry = condition(found, "PodScheduled")
    assert entry["status"] == "True"
    assert entry["lastTransitionTime"] >= made["metadata"]["creationTimestamp"]
    assert (entry["lastProbeTime"], "reason" in entry) == (None, False)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (binding(name="q"), 400, "name in URL does not match name in Binding object"),
        (
            binding(metadata={"uid": "x"}),
            409,
            'Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: x, UID in object meta: ',
        ),
        (
            binding(metadata={"resourceVersion": "1"}),
            409,
            'Operation cannot be fulfilled on pods "p": Precondition failed: ResourceVersion in precondition: 1, ',
        ),
        (
            {**binding(), "target": {"kind": "Pod", "name": "n"}},
            500,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
        ({**binding(), "target": {"kind": "Node"}}, 500, "target.name: Required value"),
        (
            {**binding(), "target": {"kind": "Pod"}},
            500,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
        ),
    ],
)
async def test_refused_bindings_have_a_reason(
    api: Any, body: dict[str, Any], code: int, message: str
) -> None:
    await pod(api)
    refused = await api("POST", f"{CORE}/pods/p/binding", body)
    assert refused.status == code
    assert refused["message"].startswith(message)
    assert "nodeName" not in (await api("GET", f"{CORE}/pods/p"))["spec"]


async def test_pods_that_cannot_be_bound_have_a_reason(api: Any) -> None:
    await pod(api, "gated", schedulingGates=[{"name": "g"}])
    await pod(api, "bound", nodeName="m")
    for name, why in (
        ("gated", "pod gated has non-empty .spec.schedulingGates"),
        ("bound", 'pod bound is already assigned to node "m"'),
    ):
        refused = await api("POST", f"{CORE}/pods/{name}/binding", binding(name))
        assert refused.status == 409
        assert refused["message"] == f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    assert (await api("POST", f"{CORE}/pods/none/binding", binding("none"))).status == 404


async def test_the_target_of_a_binding_need_not_have_a_kind(api: Any) -> None:
    await pod(api)
    assert (await api("POST", f"{CORE}/pods/p/binding", binding(kind=""))).status == 201
    assert (await api("GET", f"{CORE}/pods/p"))["spec.nodeName"] == "n"


# ---- evictions ---------------------------------------------------------------------------


def eviction(name: str = "p", **options: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        **({"deleteOptions": options} if options else {}),
    }


async def budget(api: Any, name: str = "b", spec: dict[str, Any] | None = None, **changes: Any) -> str:
    body = {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1, **(spec or {})},
    }
    made = await api("POST", BUDGETS, body)
    assert made.status == 201, made.body
    usual = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    path = f"{BUDGETS}/{name}"
    await status(api, path, {**usual, **changes})
    return path


async def running(api: Any, name: str = "p", *, ready: str = "True") -> None:
    await pod(api, name, nodeName="n")
    await status(
        api, f"{CORE}/pods/{name}", {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    )


async def test_an_eviction_updates_the_budget_and_a_condition_of_the_pod(api: Any) -> None:
    await running(api)
    path = await budget(
        api,
        disruptionsAllowed=1,
        conditions=[
            {
                "type": "DisruptionAllowed",
                "status": "True",
                "reason": "SufficientPods",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    )
    done = await api("POST", f"{CORE}/pods/p/eviction", eviction())
    assert (done.status, done["status"]) == (201, "Success")
    found = (await api("GET", f"{CORE}/pods/p")).body
    assert found["metadata"]["deletionTimestamp"]
    entry = condition(found, "DisruptionTarget")
    assert (entry["status"], entry["reason"], entry["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert condition(found, "Ready")["status"] == "True"
    left = (await api("GET", path)).body
    assert left["status"]["disruptionsAllowed"] == 0
    assert set(left["status"]["disruptedPods"]) == {"p"}
    disruption_allowed = condition(left, "DisruptionAllowed")
    assert (
        disruption_allowed["status"],
        disruption_allowed["reason"],
        disruption_allowed["observedGeneration"],
    ) == ("False", "InsufficientPods", 1)
    assert disruption_allowed["lastTransitionTime"] > "2026-01-01T00:00:00Z"


async def test_the_server_owns_what_an_eviction_writes_into_the_budget(api: Any) -> None:
    await running(api)
    path = await budget(api, disruptionsAllowed=1)
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction())).status == 201
    entries = (await api("GET", path)).body["metadata"]["managedFields"]
    mine = next(each for each in entries if each["manager"] == "kube-apiserver")
    assert (mine["operation"], mine["apiVersion"], mine["subresource"]) == ("Update", "policy/v1", "status")
    owned = mine["fieldsV1"]["f:status"]
    assert set(owned) == {"f:conditions", "f:disruptedPods", "f:disruptionsAllowed"}
    assert owned["f:disruptedPods"] == {".": {}, "f:p": {}}
    other = next(each for each in entries if each.get("subresource") == "status" and each != mine)
    assert "f:disruptionsAllowed" not in other["fieldsV1"]["f:status"]


async def test_a_budget_that_still_allows_disruptions_gets_no_condition(api: Any) -> None:
    await running(api)
    path = await budget(api, disruptionsAllowed=2)
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction())).status == 201
    left = (await api("GET", path)).body
    assert left["status"]["disruptionsAllowed"] == 1
    assert not left["status"].get("conditions")


@pytest.mark.parametrize(
    ("changes", "code", "cause", "wait"),
    [
        (
            {"currentHealthy": 1, "desiredHealthy": 2},
            429,
            "The disruption budget b needs 2 healthy pods and has 1 currently",
            False,
        ),
        (
            {"currentHealthy": 3, "desiredHealthy": 2},
            429,
            "The disruption budget b does not allow evicting pods currently",
            False,
        ),
        (
            {
                "conditions": [
                    {
                        "type": "DisruptionAllowed",
                        "status": "False",
                        "reason": "SyncFailed",
                        "message": "no controller",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ]
            },
            429,
            "The disruption budget b does not allow evicting pods currently because it failed sync: no controller",
            False,
        ),
        (
            {
                "currentHealthy": 3,
                "desiredHealthy": 2,
                "conditions": [
                    {
                        "type": "DisruptionAllowed",
                        "status": "False",
                        "reason": "Other",
                        "message": "it is so",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
            429,
            "The disruption budget b does not allow evicting pods currently (Other): it is so",
            False,
        ),
        (
            {"observedGeneration": 0, "disruptionsAllowed": 5},
            429,
            "The disruption budget b is still being processed by the server.",
            True,
        ),
    ],
)
async def test_a_refused_eviction_names_the_reason(
    api: Any, changes: dict[str, Any], code: int, cause: str, wait: bool
) -> None:
    await running(api)
    await budget(api, **changes)
    refused = await api("POST", f"{CORE}/pods/p/eviction", eviction())
    assert (refused.status, refused["message"]) == (
        code,
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    assert refused["details.causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert ("Retry-After" in refused.headers) is wait
    assert "deletionTimestamp" not in (await api("GET", f"{CORE}/pods/p"))["metadata"]


async def test_a_budget_with_too_many_evictions_in_progress_is_named(api: Any) -> None:
    await running(api)
    await budget(
        api,
        disruptionsAllowed=1,
        disruptedPods={f"p-{number}": "2026-01-02T00:00:00Z" for number in range(2001)},
    )
    refused = await api("POST", f"{CORE}/pods/p/eviction", eviction())
    assert (refused.status, refused["details.name"]) == (403, "b")
    assert "DisruptedPods map too big" in refused["message"]


async def test_a_pod_that_is_being_deleted_is_evicted_despite_its_budget(api: Any) -> None:
    await running(api)
    await budget(api)
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction())).status == 429
    assert (await api("DELETE", f"{CORE}/pods/p")).status == 200
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction())).status == 201


async def test_admission_sees_an_eviction_as_a_creation(store: Any) -> None:
    seen = []

    async def admit(asked: Admission) -> None:
        seen.append((asked.operation, asked.name, (asked.new or {}).get("kind")))

    chain = assemble(store, Everybody(), admit=(admit,)).server.chain
    await ask(chain, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await pod(partial(ask, chain))
    seen.clear()
    assert (await ask(chain, "POST", f"{CORE}/pods/p/eviction", eviction())).status == 201
    assert ("CREATE", "p", "Eviction") in seen


async def test_a_pod_with_two_budgets_cannot_be_evicted(api: Any) -> None:
    await running(api)
    for name in ("b", "c"):
        await budget(api, name, disruptionsAllowed=1)
    refused = await api("POST", f"{CORE}/pods/p/eviction", eviction())
    assert (refused.status, refused["message"]) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )


@pytest.mark.parametrize(
    ("policy", "healthy", "code"),
    [("AlwaysAllow", 0, 201), ("IfHealthyBudget", 1, 201), ("IfHealthyBudget", 0, 429), (None, 0, 429)],
)
async def test_the_unhealthy_pod_eviction_policy_is_applied(
    api: Any, policy: str | None, healthy: int, code: int
) -> None:
    await running(api, ready="False")
    path = await budget(
        api, spec={"unhealthyPodEvictionPolicy": policy} if policy else {}, currentHealthy=healthy
    )
    assert (await api("POST", f"{CORE}/pods/p/eviction", eviction())).status == code
    assert not (await api("GET", path))["status"].get("disruptedPods")


async def test_an_eviction_applies_the_options_of_a_deletion(api: Any) -> None:
    await running(api)
    refused = await api("POST", f"{CORE}/pods/p/eviction", eviction(preconditions={"uid": "x"}))
    assert refused.status == 409
    assert "the UID in the precondition (x) does not match the UID in record" in refused["message"]
    dry = await api("POST", f"{CORE}/pods/p/eviction?dryRun=All", eviction())
    assert dry.status == 201
    assert "deletionTimestamp" not in (await api("GET", f"{CORE}/pods/p"))["metadata"]
    wrong = await api("POST", f"{CORE}/pods/p/eviction", eviction("q"))
    assert (wrong.status, wrong["message"]) == (400, "name in URL does not match name in Eviction object")
    done = await api("POST", f"{CORE}/pods/p/eviction", eviction(gracePeriodSeconds=7))
    assert done.status == 201
    assert (await api("GET", f"{CORE}/pods/p"))["metadata"]["deletionGracePeriodSeconds"] == 7


# ---- ephemeral containers, resizing, approval ----------------------------------------------


async def test_the_ephemeralcontainers_subresource_changes_only_ephemeral_containers(api: Any) -> None:
    made = await pod(api, nodeName="n")
    change = {
        "metadata": {"labels": {"a": "other"}, "annotations": {"new": "one"}},
        "spec": {
            "priority": 5,
            "ephemeralContainers": [{"name": "e", "image": "busybox", "terminationMessagePolicy": "File"}],
        },
        "status": {"phase": "Failed"},
    }
    done = await api("PATCH", f"{CORE}/pods/p/ephemeralcontainers", change, **STRATEGIC)
    assert done.status == 200, done.body
    found = (await api("GET", f"{CORE}/pods/p")).body
    assert [each["name"] for each in found["spec"]["ephemeralContainers"]] == ["e"]
    assert found["metadata"]["labels"] == made["metadata"]["labels"]
    assert found["metadata"]["annotations"] == {"kept": "yes"}
    assert "priority" not in found["spec"]
    assert found["status"]["phase"] == made["status"]["phase"]
    gone = await api(
        "PATCH", f"{CORE}/pods/p/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}, **MERGE
    )
    assert gone.status == 422, "what was added stays"


async def test_a_resize_changes_only_resources(api: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    made = await pod(api, nodeName="n", containers=[container])
    resized = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}
    change = {
        "metadata": {"labels": {"a": "other"}},
        "spec": {"containers": [{"name": "c", "image": "other", "resources": resized}]},
        "status": {"phase": "Failed"},
    }
    done = await api("PATCH", f"{CORE}/pods/p/resize", change, **STRATEGIC)
    assert done.status == 200, done.body
    found = (await api("GET", f"{CORE}/pods/p")).body
    assert found["spec"]["containers"][0]["resources"] == resized
    assert found["spec"]["containers"][0]["image"] == "i"
    assert found["metadata"]["labels"] == made["metadata"]["labels"]
    assert found["status"]["phase"] == "Pending"


async def test_an_approval_changes_only_conditions(api: Any) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    spec = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
        "usages": ["client auth"],
    }
    made = await api("POST", REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
    assert made.status == 201, made.body
    approved = {"type": "Approved", "status": "True", "reason": "Mine", "message": "so"}
    body = {
        **made.body,
        "spec": {**made.body["spec"], "usages": ["server auth"]},
        "status": {"conditions": [approved], "certificate": "Q0VSVA=="},
    }
    done = await api("PUT", f"{REQUESTS}/r/approval", body)
    assert done.status == 200, done.body
    found = (await api("GET", f"{REQUESTS}/r")).body
    assert found["spec"]["usages"] == ["client auth"]
    assert "certificate" not in found["status"]
    entry = condition(found, "Approved")
    assert (entry["reason"], entry["message"]) == ("Mine", "so")
    assert entry["lastUpdateTime"] >= made.body["metadata"]["creationTimestamp"]


# ---- deletion ------------------------------------------------------------------------------


async def test_the_grace_period_of_a_terminating_pod_can_only_be_shortened(api: Any) -> None:
    await pod(api, nodeName="n")
    first = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=30")
    assert first.status == 200
    ends = first["metadata"]["deletionTimestamp"]
    later = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=60")
    assert later["metadata"]["deletionTimestamp"] == ends
    assert later["metadata"]["deletionGracePeriodSeconds"] == 30
    same = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=30")
    assert same["metadata"]["resourceVersion"] == later["metadata"]["resourceVersion"], "nothing was written"
    sooner = await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=5")
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    assert sooner["metadata"]["deletionTimestamp"] < ends
    assert (await api("DELETE", f"{CORE}/pods/p?gracePeriodSeconds=0")).status == 200
    assert (await api("GET", f"{CORE}/pods/p")).status == 404


async def test_a_deletion_with_failed_preconditions_is_refused(api: Any) -> None:
    made = await pod(api)
    for wanted, why in (
        ({"uid": "x"}, "the UID in the precondition (x) does not match the UID in record ("),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the "),
    ):
        refused = await api("DELETE", f"{CORE}/pods/p", {"preconditions": wanted})
        assert refused.status == 409
        assert refused["message"].startswith(f'Operation cannot be fulfilled on Pod "p": {why}')
        assert refused["details"]["name"] == "p"
    done = await api("DELETE", f"{CORE}/pods/p", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert done.status == 200


# ---- component statuses -------------------------------------------------------------------


async def test_component_statuses_are_healthy_and_deprecated(api: Any) -> None:
    listed = await api("GET", "/api/v1/componentstatuses")
    assert listed.status == 200
    assert listed.warnings == ["v1 ComponentStatus is deprecated in v1.19+"]
    names = [each["metadata"]["name"] for each in listed["items"]]
    assert names
    for each in listed["items"]:
        assert each["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    one = await api("GET", f"/api/v1/componentstatuses/{names[0]}")
    assert (one.status, one["metadata.name"]) == (200, names[0])
    none = await api("GET", "/api/v1/componentstatuses/none")
    assert (none.status, none["message"]) == (404, 'componentstatus "none" not found')


TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


async def test_component_statuses_are_shown_as_a_table_and_selected(api: Any) -> None:
    path = "/api/v1/componentstatuses"
    table = await api("GET", path, **TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    assert [each["cells"] for each in table["rows"]] == [["etcd-0", "Healthy", "ok", ""]]
    assert (await api("GET", f"{path}?fieldSelector=metadata.name%3Dgone"))["items"] == []
    watch = await api("GET", f"{path}?watch=1")
    assert (watch.status, watch["details.kind"]) == (405, "componentstatuses")
