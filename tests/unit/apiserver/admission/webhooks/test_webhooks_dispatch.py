"""Calls of webhooks: their selection, order, failures and changes."""

import base64
import json
import threading

import pytest

from hack.webhooks import ANSWERS
from vcsync.apiserver.admission.webhooks import calls, dispatch, versioned_objects

MAPS = "/api/v1/namespaces/n/configmaps"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}


def rule(*resources, **changes):
    return {"rules": [{**RULE, "resources": list(resources) or ["*/*"], **changes}]}


def config_map(name="one", **labels):
    return {"metadata": {"name": name, "labels": labels}}


async def test_without_webhooks_nothing_is_called(api):
    assert (await api("POST", MAPS, config_map())).status == 201
    assert api.reviews == []


async def test_the_status_of_a_refusal_is_returned_to_the_caller(api):
    await api.configure("validating", ("/deny-whole",))
    found = await api("POST", MAPS, config_map())
    assert (found.status, found.body["reason"]) == (422, "Invalid")
    assert found.body["message"] == (
        'admission webhook "deny-whole.example.org" denied the request: it is wrong'
    )
    cause = {"reason": "FieldValueInvalid", "message": "m", "field": "spec.f"}
    assert found.body["details"] == {"name": "n", "kind": "k", "causes": [cause]}
    assert (await api("GET", f"{MAPS}/one")).status == 404


async def test_webhooks_are_not_called_for_other_tenants(api):
    await api.configure("validating", ("/deny",), tenant="/tenants/b")
    assert (await api("POST", MAPS, config_map())).status == 201
    assert (await api("POST", f"/tenants/b{MAPS}", config_map())).status == 400


@pytest.mark.parametrize(
    ("changes", "called"),
    [
        ({}, True),
        (rule("*"), True),
        (rule("*/*"), True),
        (rule("configmaps/*"), True),
        (rule("configmaps/status"), False),
        (rule("secrets"), False),
        (rule("configmaps", operations=["UPDATE", "DELETE"]), False),
        (rule("configmaps", apiGroups=["apps"]), False),
        (rule("configmaps", apiVersions=["v2"]), False),
        (rule("configmaps", scope="Namespaced"), True),
        (rule("configmaps", scope="Cluster"), False),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'one'"}]}, True),
        ({"matchConditions": [{"name": "c", "expression": "request.operation != 'CREATE'"}]}, False),
    ],
)
async def test_only_matching_webhooks_are_called(api, changes, called):
    await api.configure("validating", ("/deny", changes))
    found = await api("POST", MAPS, config_map(a="b"))
    assert found.status == (400 if called else 201), found.body
    assert len(api.reviews) == called


async def test_an_object_selector_also_matches_the_old_object(api):
    await api.configure(
        "validating",
        ("/deny", {"objectSelector": {"matchLabels": {"a": "b"}}, **rule(operations=["UPDATE"])}),
    )
    await api("POST", MAPS, config_map(a="b"))
    assert (await api("PATCH", f"{MAPS}/one", {"metadata": {"labels": {"a": None}}})).status == 400


async def test_a_namespace_is_selected_by_its_own_labels(api):
    selector = {"namespaceSelector": {"matchLabels": {"team": "z"}}}
    await api.configure("validating", ("/deny", {**rule("namespaces"), **selector}))
    made = {"metadata": {"name": "m", "labels": {"team": "z"}}}
    assert (await api("POST", "/api/v1/namespaces", made)).status == 400
    assert (await api("POST", "/api/v1/namespaces", {"metadata": {"name": "m"}})).status == 201
    assert (await api("PATCH", "/api/v1/namespaces/m", {"metadata": made["metadata"]})).status == 400


async def test_match_condition_errors_follow_the_failure_policy(api):
    broken = {"matchConditions": [{"name": "c", "expression": "object.data.x == 'y'"}]}
    await api.configure("validating", ("/deny", {**broken, "failurePolicy": "Ignore"}), name="ignored")
    assert (await api("POST", MAPS, config_map("a"))).status == 201
    await api.configure("validating", ("/deny", broken), name="fails")
    found = await api("POST", MAPS, config_map("b"))
    assert found.status == 403
    assert "no such key: data" in found.body["message"]
    assert api.reviews == []


async def test_mutating_webhooks_run_in_the_order_of_their_configurations_names(api):
    await api.configure("mutating", ("/relabel",), name="b")
    await api.configure("mutating", ("/label",), ("/annotate",), name="a")
    found = await api("POST", MAPS, config_map())
    assert found.status == 201
    assert [path for path, _ in api.reviews] == ["/label", "/annotate", "/relabel"]
    metadata = found.body["metadata"]
    assert metadata["labels"] == {"touched": "again"}
    assert metadata["annotations"] == {"seen": "yes"}


async def test_changes_of_webhooks_have_no_field_manager(api):
    await api.configure("mutating", ("/data",))
    found = await api("POST", f"{MAPS}?fieldManager=me", config_map(a="b"))
    assert found.body["data"] == {"made": "by webhook"}
    (entry,) = found.body["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


async def test_changed_objects_are_validated_and_their_unknown_fields_are_dropped(api):
    await api.configure(
        "mutating", ("/invalid", {"objectSelector": {"matchLabels": {"a": "b"}}}), ("/unknown",)
    )
    found = await api("POST", MAPS, config_map(a="b"))
    assert (found.status, found.body["reason"]) == (422, "Invalid")
    found = await api("POST", MAPS, config_map())
    assert (found.status, "bogus" in found.body) == (201, False)


async def test_the_size_of_changed_objects_is_bounded(api, monkeypatch):
    monkeypatch.setattr(versioned_objects, "LARGEST_OBJECT", 100)
    await api.configure("mutating", ("/data",))
    found = await api("POST", MAPS, config_map())
    assert (found.status, found.body["message"]) == (413, "limit is 100")


async def test_webhooks_cannot_break_managed_fields(api):
    await api.configure("mutating", ("/owners",))
    found = await api("POST", MAPS, config_map(a="b"))
    assert [each["operation"] for each in found.body["metadata"]["managedFields"]] == ["Update"]
    assert "managedFields was in an invalid state" in found.warnings[0]


@pytest.mark.parametrize(
    ("hooks", "count", "called"),
    [
        ((("/count", "IfNeeded"), ("/label", "Never")), "2", ["/count", "/label", "/count"]),
        ((("/count", "Never"), ("/label", "Never")), "1", ["/count", "/label"]),
        ((("/count", "IfNeeded"),), "1", ["/count"]),
        ((("/label", "Never"), ("/count", "IfNeeded")), "1", ["/label", "/count"]),
        ((("/count", "IfNeeded"), ("/allow", "Never")), "1", ["/count", "/allow"]),
    ],
)
async def test_webhooks_with_if_needed_are_reinvoked_once_after_later_changes(api, hooks, count, called):
    await api.configure("mutating", *((path, {"reinvocationPolicy": again}) for path, again in hooks))
    found = await api("POST", MAPS, config_map())
    assert found.body["metadata"]["annotations"]["count"] == count
    assert [path for path, _ in api.reviews] == called


async def test_all_validating_webhooks_are_called_and_the_first_refusal_is_returned(api):
    await api.configure("validating", ("/allow",), ("/deny-code",), ("/deny",), ("/warn",))
    found = await api("POST", MAPS, config_map())
    assert found.body["message"].startswith('admission webhook "deny-code.example.org"')
    assert sorted(path for path, _ in api.reviews) == ["/allow", "/deny", "/deny-code", "/warn"]
    assert found.warnings == ["beware", 'of "this"', "beware"]


@pytest.mark.parametrize(
    "path", ["/500", "/unreachable", "/wrong-uid", "/no-response", "/list", "/merge-patch"]
)
@pytest.mark.parametrize("sort", ["mutating", "validating"])
async def test_failures_refuse_the_request_unless_they_are_ignored(api, sort, path):
    await api.configure(sort, (path, {"failurePolicy": "Ignore"}), name="ignored")
    assert (await api("POST", MAPS, config_map("a"))).status == 201
    await api.configure(sort, (path,), name="fails")
    found = await api("POST", MAPS, config_map("b"))
    assert (found.status, found.body["reason"]) == (500, "InternalError")
    name = f"{path.strip('/')}.example.org"
    assert found.body["message"].startswith(f'Internal error occurred: failed calling webhook "{name}": ')


async def test_refusals_are_never_ignored(api):
    await api.configure("mutating", ("/deny", {"failurePolicy": "Ignore"}))
    assert (await api("POST", MAPS, config_map())).status == 400


async def test_dry_runs_call_webhooks_without_side_effects(api):
    await api.configure("mutating", ("/label", {"sideEffects": "NoneOnDryRun"}))
    found = await api("POST", f"{MAPS}?dryRun=All", config_map())
    assert found.body["metadata"]["labels"] == {"touched": "yes"}
    assert api.requests()[0]["dryRun"] is True
    assert api.requests()[0]["options"]["dryRun"] == ["All"]


async def test_webhooks_are_not_called_for_webhook_configurations(api):
    await api.configure("validating", ("/deny", rule()))
    await api.configure("mutating", ("/deny", rule()), name="other")
    found = await api("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/c")
    assert found.status == 200


async def test_webhooks_are_called_for_deletions(api):
    await api("POST", MAPS, config_map())
    await api.configure("validating", ("/deny", rule("configmaps", operations=["DELETE"])))
    assert (await api("DELETE", f"{MAPS}/one")).status == 400
    assert (await api("DELETE", MAPS)).status == 400
    named, collected = api.requests()
    assert (named["name"], named["object"], named["oldObject"]["metadata"]["name"]) == ("one", None, "one")
    assert "name" not in collected
    await api.configure("mutating", ("/data", rule("configmaps", operations=["DELETE"])))
    found = await api("DELETE", f"{MAPS}/one")
    assert "attempted to modify the object, which is not supported" in found.body["message"]


POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}, "Binding"),
        ("pods/p/eviction", {"metadata": {"name": "p"}}, "Eviction"),
        ("serviceaccounts/s/token", {"spec": {}}, "TokenRequest"),
    ],
)
async def test_webhooks_are_called_for_creatable_subresources(api, path, body, kind):
    plural, _, sub = path.split("/")
    await api("POST", "/api/v1/namespaces/n/pods", POD)
    await api.configure("validating", ("/deny", rule(f"{plural}/{sub}")))
    found = await api("POST", f"/api/v1/namespaces/n/{path}", body)
    assert found.status == 400
    (request,) = api.requests()
    assert (request["subResource"], request["kind"]["kind"]) == (sub, kind)
    assert request["object"]["kind"] == kind


async def test_webhooks_receive_a_scale_subresource_as_a_scale(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/n/deployments"
    await api("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    await api.configure("validating", ("/tell", rule("deployments/scale")))
    found = await api("PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}})
    assert found.status == 400
    (request,) = api.requests()
    assert request["object"]["kind"] == "Scale"
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 3}, {"replicas": 1})


async def test_webhooks_for_another_version_receive_converted_objects_unless_exact(api):
    path = "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers"
    target = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    old = rule("horizontalpodautoscalers", apiVersions=["v1"], apiGroups=["autoscaling"])
    await api.configure("validating", ("/deny", {**old, "matchPolicy": "Exact"}), name="exact")
    assert (await api("POST", f"{path}?dryRun=All", body)).status == 201
    await api.configure("validating", ("/tell", old))
    assert (await api("POST", path, body)).status == 400
    (request,) = api.requests()
    assert request["object"]["apiVersion"] == "autoscaling/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")


async def test_only_validating_webhooks_see_generated_names(api):
    await api.configure("mutating", ("/label",))
    await api.configure("validating", ("/allow",))
    found = await api("POST", MAPS, {"metadata": {"generateName": "g-"}})
    assert found.status == 201
    first, second = api.requests()
    assert "name" not in first
    assert "name" not in first["object"]["metadata"]
    assert second["name"] == second["object"]["metadata"]["name"] == found.body["metadata"]["name"]


async def test_webhooks_have_a_time_limit_for_the_whole_request(api, monkeypatch):
    await api.configure("validating", ("/allow",))
    monkeypatch.setattr(calls, "REQUEST_SECONDS", -1.0)
    found = await api("POST", MAPS, config_map())
    assert (found.status, found.body["reason"]) == (504, "Timeout")


async def test_the_time_limit_of_a_call_is_that_of_its_webhook(api):
    await api.configure("validating", ("/allow", {"timeoutSeconds": 3}))
    await api("POST", MAPS, config_map())
    assert [(each.seconds, each.query) for each in api.calls] == [(3.0, "timeout=3s")]


async def test_webhooks_are_called_for_connect_before_the_object_is_read(api):
    rules = [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]
    await api.configure("validating", ("/deny", {"rules": rules}))
    for path, kind in (
        ("pods/p/exec?command=sh&stdin=true", "PodExecOptions"),
        ("pods/p/attach", "PodAttachOptions"),
        ("pods/p/portforward", "PodPortForwardOptions"),
        ("pods/p/proxy/x", "PodProxyOptions"),
        ("services/s/proxy", "ServiceProxyOptions"),
    ):
        found = await api("GET", f"/api/v1/namespaces/n/{path}")
        assert (found.status, "you shall not pass" in found.body["message"]) == (400, True), path
        request = api.requests("/deny")[-1]
        assert (request["operation"], request["object"]["kind"], request["name"]) == (
            "CONNECT",
            kind,
            path.split("/")[1],
        )
    assert api.requests("/deny")[0]["object"]["command"] == ["sh"]
    log = await api("GET", "/api/v1/namespaces/n/pods/p/log")
    assert log.status == 404


@pytest.mark.parametrize(
    ("operations", "size", "aside"), [(3, 10, ()), (101, 10, ("apply",)), (3, 30_000, ("read",))]
)
async def test_long_answers_are_read_and_applied_on_a_thread(api, monkeypatch, operations, size, aside):
    def answered(review):
        patch = [{"op": "add", "path": f"/data/k{at}", "value": "x" * size} for at in range(operations)]
        text = base64.b64encode(json.dumps(patch).encode()).decode()
        response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": text}
        return 200, {}, json.dumps({**review, "response": response}).encode()

    used = {}
    for module, name in ((calls.review, "read"), (dispatch.jsonpatch, "apply")):
        plain = getattr(module, name)

        def noted(*given, name=name, plain=plain, **more):
            used[name] = threading.current_thread() is not threading.main_thread()
            return plain(*given, **more)

        monkeypatch.setattr(module, name, noted)
    monkeypatch.setitem(ANSWERS, "/many", answered)
    await api.configure("mutating", ("/many",))
    made = await api("POST", MAPS, {**config_map(), "data": {"k": "v"}})
    assert (made.status, len(made.body["data"])) == (201, 1 + operations)
    assert used == {name: name in aside for name in ("read", "apply")}
