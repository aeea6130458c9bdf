"""One Tenant from its creation to its end, whatever fails and whenever the controller is restarted."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from stage import Stage, kubeconfig

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS, TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import (
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    Status,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.resources import EVENTS, NAMESPACES, SECRETS
from vcsync.registration.tenants import virtual_cluster
from vcsync.tenantcontroller import reconcile
from vcsync.tenantcontroller.settings import Settings

SETTINGS = Settings(defaults={"heartbeatSeconds": 120})


class Killed(Exception):
    """The controller's process ends here."""


async def settle(stage: Stage, name: str = "acme", rounds: int = 12) -> float | None:
    """Reconcile until nothing is under way. Every round is a new controller."""
    pause: float | None = 0.0
    for _ in range(rounds):
        pause = await stage.reconciler(SETTINGS).reconcile(name)
        if pause != SETTINGS.poll:
            break
        stage.others_work()
    return pause


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ({}, None),
        ({"network": {}}, {"type": "Flat", "vpcID": None}),
        ({"network": {"type": "VPC", "vpcID": "v"}}, {"type": "VPC", "vpcID": "v"}),
    ],
)
async def test_a_control_plane_is_made_with_the_tenants_network(
    stage: Stage, spec: dict[str, Any], made: dict[str, Any] | None
) -> None:
    stage.tenant(**spec)
    await settle(stage)
    assert stage.server.networks["acme"] == made


async def test_an_embedded_tenant_is_created_registered_and_limited(stage: Stage) -> None:
    stage.tenant(weight=3, quota={"cpu": "10"}, defaultQuota={"cpu": "1", "memory": "1Gi"})
    assert await settle(stage) == SETTINGS.resync
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    assert vc["spec"] == {
        "tenant": "acme",
        "heartbeatSeconds": 120,
        "weight": 3,
        "quota": {"cpu": "10"},
        "defaultQuota": {"cpu": "1", "memory": "1Gi"},
    }
    assert vc["metadata"]["finalizers"] == [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER]
    assert vc["metadata"]["annotations"][names.CONTROL_PLANE_UID] == "kube-1"
    root = vc["status"]["clusterNamespace"]
    for role in names.ROLES:
        assert stage.meta.found(SECRETS, names.role_secret(role), root)
    status = stage.status()
    assert status["phase"] == "Running"
    assert (status["controlPlane"], status["controlPlaneUID"]) == ("Embedded", "space-1")
    assert status["endpoint"] == "https://plane:6443/tenants/acme"
    assert status["clusterNamespace"] == root
    assert [stage.condition(kind)[0] for kind in ("ControlPlaneReady", "Registered", "Ready")] == ["True"] * 3


async def test_nothing_is_written_while_nothing_changes(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)

    def refuse(verb: str, plural: str, name: str) -> None:
        assert verb in ("get", "list"), (verb, plural, name)

    stage.meta.before = refuse
    stage.server.before = lambda method, path: refuse(method.lower(), "tenants", path)
    assert await settle(stage) == SETTINGS.resync


async def test_changed_limits_are_set_and_removed_ones_taken_away(stage: Stage) -> None:
    stage.tenant(weight=3, quota={"cpu": "10"})
    await settle(stage)
    stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")["spec"]["podPolicy"] = {"hostPath": "Allow"}
    stage.tenant(generation=2, weight=4)
    await settle(stage)
    spec = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")["spec"]
    assert spec["weight"] == 4
    assert "quota" not in spec
    assert spec["podPolicy"] == {"hostPath": "Allow"}
    assert stage.status()["observedGeneration"] == 2


async def test_limits_of_requests_are_set_shown_and_taken_away(stage: Stage) -> None:
    stage.tenant(limits={"watches": 5, "bytesPerSecond": "1500m", "user": {"readsPerSecond": 2}}, weight=3)
    await settle(stage)
    assert stage.server.records["acme"]["weight"] == 3
    wanted = {"watches": 5, "bytesPerSecond": 2, "user": {"readsPerSecond": 2}}
    assert stage.server.records["acme"]["limits"] == wanted
    assert stage.status()["limits"] == {**wanted, "bytesPerSecond": "2"}
    assert stage.condition("WithinLimits")[:2] == ("True", "WithinLimits")
    stage.server.records["acme"] |= {"limits": {"watches": 9}, "limitsReached": ["user/watches"]}
    await settle(stage)
    assert stage.condition("WithinLimits")[:2] == ("False", "LimitsReached")
    assert "user/watches" in stage.condition("WithinLimits")[2]
    assert stage.condition()[:2] == ("True", "Ready")
    assert stage.server.records["acme"]["limits"] == wanted
    stage.tenant(generation=2, limits={"watches": 0, "user": {}})
    await settle(stage)
    assert stage.server.records["acme"]["limits"] == {"watches": 0}
    stage.tenant(generation=3)
    await settle(stage)
    assert stage.server.records["acme"]["limits"] is None
    assert "limits" not in stage.status()


async def test_limits_of_an_external_tenant_are_set_at_its_door_if_it_has_one(
    stage: Stage, tokens: list[str]
) -> None:
    stage.external("acme")
    external = {"controlPlane": {"external": {"kubeconfigSecretRef": {"name": "acme-admin"}}}}
    stage.tenant(**external, limits={"watches": 5})
    await settle(stage)
    assert stage.condition()[:2] == ("True", "Ready")
    assert "limits" not in stage.status()
    stage.server.add("acme", server="https://acme.example")
    await settle(stage)
    assert stage.server.records["acme"]["limits"] == {"watches": 5}
    assert stage.status()["limits"] == {"watches": 5}

    def fail(_method: str, path: str) -> None:
        raise Unreachable("no")

    stage.server.before = fail
    await settle(stage)
    assert stage.condition()[:2] == ("True", "Ready")
    assert stage.status()["limits"] == {"watches": 5}


async def test_a_limit_that_somebody_changes_is_set_again(stage: Stage) -> None:
    stage.tenant(weight=3)
    await settle(stage)
    await stage.meta.patch(VIRTUAL_CLUSTERS, "acme", {"spec": {"weight": 9}}, "vcsync")
    await settle(stage)
    assert stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")["spec"]["weight"] == 3


async def test_a_virtual_cluster_that_somebody_deletes_is_made_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another(*arguments: Any) -> dict[str, Any]:
        made = virtual_cluster(*arguments)
        return {**made, "metadata": {**made["metadata"], "uid": "another"}}

    stage.tenant()
    await settle(stage)
    first = stage.status()["clusterNamespace"]
    await stage.meta.delete(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert await stage.reconciler(SETTINGS).reconcile("acme") == SETTINGS.poll
    assert stage.condition()[1] == "VirtualClusterDeleting"
    stage.others_work()
    monkeypatch.setattr(reconcile, "virtual_cluster", another)
    assert await settle(stage) == SETTINGS.resync
    assert stage.status()["phase"] == "Running"
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    assert stage.status()["clusterNamespace"] == vc["status"]["clusterNamespace"] != first


async def test_a_deleted_tenant_leaves_nothing(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    assert stage.left()
    await stage.delete()
    assert await settle(stage) is None
    assert stage.left() == []


async def test_a_deletion_shows_what_it_waits_for(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    await stage.delete()
    reconciler = stage.reconciler(SETTINGS)
    assert await reconciler.reconcile("acme") == SETTINGS.poll
    assert stage.status()["phase"] == "Terminating"
    assert stage.condition() == ("False", "Draining", "waiting for nsscheduler to release the tenant")
    stage.meta.remove(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert await reconciler.reconcile("acme") == SETTINGS.poll
    assert stage.condition()[1] == "DeletingControlPlane"
    assert "example.com/keep (1)" in stage.condition()[2]


def calls_of(stage: Stage, count: Callable[[str], None]) -> None:
    """Count the calls before and after their effect."""
    stage.meta.before = lambda verb, plural, name: count(f"before {verb} {plural} {name}")
    stage.meta.after = lambda verb, plural, name: count(f"after {verb} {plural} {name}")
    stage.server.before = lambda method, path: count(f"before {method} {path}")
    stage.server.after = lambda method, path: count(f"after {method} {path}")


async def whole_life(stage: Stage, error: Exception | None = None, at: int = -1) -> int:
    """Create and delete a Tenant, with an error at one of the calls. Returns the number of calls."""
    calls = 0

    def count(_call: str) -> None:
        nonlocal calls
        calls += 1
        if error is not None and calls == at:
            raise error

    stage.tenant(weight=2)
    for wanted in (SETTINGS.resync, None):
        if wanted is None:
            calls_of(stage, lambda _call: None)
            await stage.delete()
        calls_of(stage, count)
        for _ in range(30):
            try:
                pause = await stage.reconciler(SETTINGS).reconcile("acme")
            except (KubeError, Killed):
                continue
            if pause == wanted:
                break
            stage.others_work()
        else:
            raise AssertionError(f"it does not settle after an error at call {at}")
        if wanted is not None:
            assert stage.status()["phase"] == "Running"
            assert len(stage.server.records) == 1
    return calls


async def test_a_restart_at_any_call_changes_nothing_of_the_outcome() -> None:
    total = await whole_life(Stage())
    assert total > 50
    for at in range(1, total + 1):
        stage = Stage()
        await whole_life(stage, Killed(), at)
        assert stage.left() == [], f"restart at call {at}"


ERRORS: tuple[KubeError, ...] = (
    Conflict(Status(409, "Conflict", "changed")),
    Gone(Status(410, "Expired", "too old")),
    ServerError(Status(503, "ServiceUnavailable", "later")),
    Unreachable("no answer"),
    Unauthorized(Status(401, "Unauthorized", "who?")),
)


async def test_an_error_of_any_call_is_overcome() -> None:
    total = await whole_life(Stage())
    for at in range(1, total + 1):
        stage, error = Stage(), ERRORS[at % len(ERRORS)]
        await whole_life(stage, error, at)
        assert stage.left() == [], f"{type(error).__name__} at call {at}"


async def test_a_failed_step_is_shown_with_its_reason(stage: Stage) -> None:
    stage.tenant()

    def fail(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("create", "virtualclusters"):
            raise Forbidden(Status(403, "Forbidden", "may not create virtualclusters"), endpoint="meta")

    stage.meta.before = fail
    with pytest.raises(Forbidden):
        await stage.reconciler().reconcile("acme")
    status, reason, message = stage.condition()
    assert (status, reason) == ("False", "Forbidden")
    assert "may not create virtualclusters" in message
    assert "run 'vcsync install' again" in message


# Control planes that are there already


async def test_a_control_plane_of_the_name_is_adopted(stage: Stage) -> None:
    stage.server.add("acme")
    stage.tenant()
    await settle(stage)
    assert stage.status()["controlPlaneUID"] == "space-1"


async def test_a_super_clusters_control_plane_is_neither_adopted_nor_deleted(stage: Stage) -> None:
    stage.server.add("acme", nodes="own")
    stage.tenant()
    assert await settle(stage) == SETTINGS.retry
    assert stage.condition()[1] == "NameTaken"
    await stage.delete()
    await settle(stage)
    assert stage.meta.found(TENANTS, "acme") is None
    assert "acme" in stage.server.records


async def test_a_lost_control_plane_is_not_replaced_by_an_empty_one(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    del stage.server.records["acme"]
    await settle(stage)
    assert stage.condition()[1] == "ControlPlaneLost"
    assert "acme" not in stage.server.records


async def test_another_control_plane_of_the_name_is_refused_and_survives_the_tenant(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    stage.server.add("acme")
    await settle(stage)
    assert stage.condition()[1] == "WrongControlPlane"
    await stage.delete()
    await settle(stage)
    assert stage.meta.found(TENANTS, "acme") is None
    assert stage.server.records["acme"]["phase"] == "Ready"


async def test_a_server_without_embedded_control_planes_is_named_with_the_remedy(stage: Stage) -> None:
    stage.server.served = False
    stage.tenant()
    await settle(stage)
    _, reason, message = stage.condition()
    assert reason == "NoEmbeddedControlPlanes"
    assert "--control-plane KUBECONFIG" in message
    await stage.delete()
    assert await settle(stage) is None
    assert stage.left() == []


# Registered by commands


def registered(stage: Stage, uid: str, **metadata: Any) -> None:
    """Put what `vcsync tenant add` makes."""
    stage.tenant()
    stage.meta.objects["tenants", "", "acme"]["metadata"]["annotations"] = {names.VC_UID: "uid-acme"}
    stage.meta.put(
        VIRTUAL_CLUSTERS,
        "acme",
        "vcsync",
        metadata={
            "annotations": {names.CONTROL_PLANE_UID: uid},
            "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
            **metadata,
        },
        spec={"tenant": "acme", "defaultQuota": {"cpu": "7", "memory": "7Gi"}},
        status={"phase": "Running", "clusterNamespace": "root-acme"},
    )
    stage.meta.put(
        NAMESPACES,
        "root-acme",
        metadata={"annotations": {names.VC_ROOT_NAMESPACE: "true", names.VC_NAME: "acme"}},
    )


async def test_a_tenant_that_a_command_registered_is_shown_and_left_alone(stage: Stage) -> None:
    registered(stage, "kube-elsewhere")
    assert await settle(stage) == SETTINGS.resync
    assert stage.status()["controlPlane"] == "Registered"
    assert stage.condition()[:2] == ("True", "ByCommand")
    assert "finalizers" not in stage.meta.objects["tenants", "", "acme"]["metadata"]
    assert stage.server.records == {}


async def test_a_registration_under_way_is_left_alone(stage: Stage) -> None:
    stage.tenant()
    stage.meta.objects["tenants", "", "acme"]["metadata"]["annotations"] = {names.REGISTERED_BY: "vcsync-cli"}
    await settle(stage)
    assert stage.condition()[1] == "NoVirtualCluster"
    assert stage.server.records == {}


async def test_a_virtual_cluster_that_was_made_by_hand_elsewhere_keeps_its_tenant_alone(stage: Stage) -> None:
    stage.tenant()
    stage.meta.put(
        VIRTUAL_CLUSTERS, "other", "elsewhere", spec={"tenant": "acme"}, status={"phase": "Running"}
    )
    await settle(stage)
    assert stage.status()["controlPlane"] == "Registered"
    assert stage.server.records == {}


async def test_a_registered_tenant_is_handed_over_by_its_spec(stage: Stage) -> None:
    stage.server.add("acme")
    registered(stage, "kube-1")
    stage.tenant(controlPlane={"embedded": {}})
    await settle(stage)
    assert stage.status()["controlPlane"] == "Embedded"
    metadata = stage.meta.objects["tenants", "", "acme"]["metadata"]
    assert names.VC_UID not in metadata.get("annotations", {})
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    assert vc["spec"]["defaultQuota"] == {"cpu": "7", "memory": "7Gi"}
    await stage.delete()
    assert await settle(stage) is None
    assert stage.left() == []


@pytest.mark.parametrize("there", [True, False])
async def test_a_tenant_with_another_control_plane_is_not_handed_over(stage: Stage, there: bool) -> None:
    if there:
        stage.server.add("acme")
    registered(stage, "kube-elsewhere")
    stage.tenant(controlPlane={"embedded": {}})
    await settle(stage)
    assert stage.condition()[1] == "NameTaken"
    assert len(stage.server.records) == int(there)
    await stage.delete()
    await settle(stage)
    assert stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync") is not None
    assert len(stage.server.records) == int(there)


# External control planes

EXTERNAL = {"external": {"kubeconfigSecretRef": {"name": "acme-admin"}}}


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the creation of tokens, which a control plane's controllers take part in."""
    from vcsync.tenantcontroller import control_planes  # noqa: PLC0415

    made: list[str] = []

    async def tenant_secrets(_plane: Any, tenant: str, root: str, cluster: Any, _note: Any) -> list[Any]:
        made.append(f"{tenant} {root} {cluster.server}")
        return []

    monkeypatch.setattr(control_planes, "tenant_secrets", tenant_secrets)
    return made


async def test_an_external_tenant_is_registered_with_the_kubeconfig_of_its_secret(
    stage: Stage, tokens: list[str]
) -> None:
    stage.external("acme")
    stage.tenant(controlPlane=EXTERNAL)
    assert await settle(stage) == SETTINGS.resync
    assert stage.condition()[0] == "True"
    status = stage.status()
    assert (status["controlPlane"], status["controlPlaneUID"]) == ("External", "kube-acme")
    assert len(tokens) == 1
    assert stage.server.records == {}
    await stage.delete()
    assert await settle(stage) is None
    assert stage.left() == []


async def test_a_new_kubeconfig_gives_the_roles_new_credentials(stage: Stage, tokens: list[str]) -> None:
    stage.external("acme")
    stage.tenant(controlPlane=EXTERNAL)
    await settle(stage)
    kept = stage.outside["acme"]
    stage.external("acme")
    stage.outside["acme"] = kept
    await settle(stage)
    assert len(tokens) == 2


async def test_a_kubeconfig_that_leads_elsewhere_is_refused(stage: Stage, tokens: list[str]) -> None:
    stage.external("acme")
    stage.tenant(controlPlane=EXTERNAL)
    await settle(stage)
    stage.external("other")
    data = {"kubeconfig": base64.b64encode(kubeconfig("other")).decode()}
    stage.meta.put(SECRETS, "acme-admin", "vcsync", data=data)
    await settle(stage)
    assert stage.condition()[1] == "WrongControlPlane"
    assert len(tokens) == 1


@pytest.mark.parametrize(
    ("content", "reason", "told"),
    [
        (
            None,
            "NoKubeconfig",
            "kubectl create secret generic -n vcsync acme-admin --from-file=kubeconfig=FILE",
        ),
        (b"", "NoKubeconfig", "has no key kubeconfig"),
        (b"clusters: [", "InvalidKubeconfig", "Secret vcsync/acme-admin, key kubeconfig"),
        (
            kubeconfig("acme").replace(b"token: secret-token", b"tokenFile: /root/secret-token"),
            "InvalidKubeconfig",
            "field user.tokenFile",
        ),
    ],
)
async def test_an_unusable_kubeconfig_is_named_with_the_remedy(
    stage: Stage, content: bytes | None, reason: str, told: str
) -> None:
    if content is not None:
        data = {"kubeconfig": base64.b64encode(content).decode()} if content else {}
        stage.meta.put(SECRETS, "acme-admin", "vcsync", data=data)
    stage.tenant(controlPlane=EXTERNAL)
    assert await settle(stage) == SETTINGS.retry
    found, why, message = stage.condition()
    assert (found, why) == ("False", reason)
    assert told in message
    assert "secret-token" not in str(stage.status())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("refused"), "ControlPlaneUnreachable"),
        (Unauthorized(Status(401, "Unauthorized", "who?")), "KubeconfigRefused"),
        (ServerError(Status(500, "InternalError", "oops")), "ControlPlaneFails"),
    ],
)
async def test_a_control_plane_that_does_not_answer_is_shown_and_does_not_block_the_deletion(
    stage: Stage, tokens: list[str], error: KubeError, reason: str
) -> None:
    stage.external("acme")
    stage.tenant(controlPlane=EXTERNAL)
    await settle(stage)

    def fail(*_: str) -> None:
        raise error

    stage.outside["acme"].before = fail
    assert await settle(stage) == SETTINGS.retry
    assert stage.condition("ControlPlaneReady")[:2] == ("False", reason)
    assert stage.condition("Registered")[0] == "True"
    await stage.delete()
    assert await settle(stage) is None
    assert stage.left() == []


async def test_the_meta_cluster_is_no_tenants_control_plane(stage: Stage, tokens: list[str]) -> None:
    stage.external("acme")
    stage.outside["acme"] = stage.meta
    stage.tenant(controlPlane=EXTERNAL)
    await settle(stage)
    assert stage.condition()[1] == "Refused"
    assert "meta cluster" in stage.condition()[2]
    assert stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync") is None


async def test_what_does_not_exist_here_is_not_supported(stage: Stage) -> None:
    stage.tenant(controlPlane={"clusterVersion": "v1"})
    await settle(stage)
    assert stage.condition()[1] == "NotSupported"


# Events, and what the roles report


async def test_events_tell_the_story_once(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    await settle(stage)
    await stage.events.flush()
    told = [event["reason"] for event in stage.meta.all(EVENTS)]
    assert told == ["Pending", "Creating", "Registering", "SettingLimits", "Ready"]


async def test_a_trouble_of_the_roles_is_shown(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    vc["status"]["conditions"] = [{"type": "TenantTooLarge", "status": "True", "message": "remove objects"}]
    assert await settle(stage) == SETTINGS.retry
    assert stage.condition() == ("False", "TenantTooLarge", "remove objects")


async def test_a_tenant_that_is_gone_needs_nothing(stage: Stage) -> None:
    assert await stage.reconciler().reconcile("nobody") is None
    with pytest.raises(NotFound):
        await stage.meta.get(TENANTS, "nobody")


async def test_a_tenant_is_suspended_and_resumed(stage: Stage) -> None:
    stage.tenant(quota={"cpu": "10"})
    await settle(stage)
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    root = stage.status()["clusterNamespace"]
    entry = {
        "metadata": {"finalizers": ["tenancy.x-k8s.io/drain-r1"]},
        "spec": {
            "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
            "tenant": root,
            "namespace": "shop",
            "namespaceUID": "ns",
        },
    }
    stage.meta.put(NAMESPACE_PLACEMENTS, "shop", root, **entry)
    stage.tenant(generation=2, quota={"cpu": "10"}, suspended=True)
    assert await stage.reconciler(SETTINGS).reconcile("acme") == SETTINGS.poll
    assert stage.server.records["acme"]["suspended"] is True
    assert stage.condition("Suspended") == (
        "False",
        "Suspending",
        "waiting for nsscheduler to take its slices away",
    )
    placed = {
        "status": {
            "conditions": [
                {
                    "type": "Placed",
                    "status": "False",
                    "reason": "Suspended",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        }
    }
    stage.meta.put(NAMESPACE_PLACEMENTS, "shop", root, **entry, **placed)
    assert await stage.reconciler(SETTINGS).reconcile("acme") == SETTINGS.poll
    assert stage.condition("Suspended")[2] == "namespaces still to drain from super clusters r1: 1"
    stage.meta.put(NAMESPACE_PLACEMENTS, "shop", root, **{**entry, "metadata": {}}, **placed)
    assert await stage.reconciler(SETTINGS).reconcile("acme") == SETTINGS.resync
    assert stage.condition("Suspended")[:2] == ("True", "Suspended")
    assert stage.condition("Ready")[:2] == ("False", "Suspended")
    assert stage.status()["phase"] == "Suspended"

    stage.tenant(generation=3, quota={"cpu": "10"}, suspended=False)
    assert await settle(stage) == SETTINGS.resync
    assert stage.server.records["acme"]["suspended"] is False
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    assert not vc["spec"].get("suspended")
    assert stage.condition("Suspended")[:2] == ("False", "Resumed")
    assert stage.condition()[0] == "True"


async def test_an_external_tenant_is_read_only_where_the_server_answers_for_it(
    stage: Stage, tokens: list[str]
) -> None:
    stage.external("acme")
    stage.server.records["acme"] = {"name": "acme", "uid": "door", "phase": "Ready"}
    stage.tenant(controlPlane=EXTERNAL, suspended=True)
    await settle(stage)
    assert len(tokens) == 1
    assert stage.server.records["acme"]["suspended"] is True
    assert "may only read" in stage.condition("Suspended")[2]
    del stage.server.records["acme"]
    stage.tenant(generation=2, controlPlane=EXTERNAL, suspended=True)
    await settle(stage)
    assert "can still write" in stage.condition("Suspended")[2]
