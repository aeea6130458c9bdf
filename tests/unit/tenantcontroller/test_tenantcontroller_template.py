"""Settings of a Tenant with a TenantTemplate: precedence of fields, time of application, and fields that stay without it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage

from vcsync.api import names
from vcsync.api.objects import Tenant, TenantTemplate, decode_quantity, to_wire
from vcsync.api.resources import TENANT_TEMPLATES, TENANTS, VIRTUAL_CLUSTERS
from vcsync.api.specs import AppliedTemplate, TenantSettings, TenantSpec, TenantStatus, TenantTemplateSpec
from vcsync.kube.errors import Forbidden, KubeError, Status
from vcsync.tenantcontroller.settings import Settings
from vcsync.tenantcontroller.template import choose, missing

SETTINGS = Settings()


def converted(kind: type[Any], fields: dict[str, Any]) -> Any:
    return msgspec.convert(fields, kind, dec_hook=decode_quantity)


def tenant(own: dict[str, Any], **status: Any) -> Tenant:
    return Tenant(name="acme", generation=1, spec=converted(TenantSpec, own), status=TenantStatus(**status))


def template(**fields: Any) -> TenantTemplate:
    return TenantTemplate(name="small", uid="u1", generation=3, spec=converted(TenantTemplateSpec, fields))


MERGED = [
    ("the template alone", {}, {"weight": 4}, {"weight": 4}),
    ("neither", {}, {}, {"weight": 1}),
    ("the Tenant wins", {"weight": 1}, {"weight": 4}, {"weight": 1}),
    (
        "each resource is a field",
        {"quota": {"cpu": "9"}},
        {"quota": {"cpu": "2", "memory": "1Gi"}},
        {"weight": 1, "quota": {"cpu": "9", "memory": "1Gi"}},
    ),
    (
        "each limit is a field, and 0 is a value",
        {"limits": {"watches": 0, "user": {"watches": 2}}},
        {"limits": {"watches": 5, "writesPerSecond": 7, "user": {"writesPerSecond": 1}}},
        {
            "weight": 1,
            "limits": {"watches": 0, "writesPerSecond": 7, "user": {"watches": 2, "writesPerSecond": 1}},
        },
    ),
    (
        "a quota of the control plane",
        {"resourceQuota": {"hard": {"pods": "3"}}},
        {"resourceQuota": {"hard": {"pods": "1", "namespaces": "4"}}},
        {"weight": 1, "resourceQuota": {"hard": {"pods": "3", "namespaces": "4"}}},
    ),
]


@pytest.mark.parametrize(
    ("own", "shared", "wanted"), [each[1:] for each in MERGED], ids=[m[0] for m in MERGED]
)
def test_what_a_tenant_sets_wins_field_by_field(
    own: dict[str, Any], shared: dict[str, Any], wanted: dict[str, Any]
) -> None:
    chosen = choose(tenant({"template": "small", **own}), template(**shared))
    assert chosen.problem is None
    assert {key: value for key, value in to_wire(chosen.tenant.spec).items() if value or value == 0} == {
        "template": "small",
        "suspended": False,
        **wanted,
    }
    assert chosen.template is not None
    assert (chosen.template.name, chosen.template.uid, chosen.template.generation) == ("small", "u1", 3)


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.integers(1, 3),
        "quota": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"])),
        "limits": st.fixed_dictionaries({}, optional={"watches": st.integers(0, 2)}),
    },
)


@given(own=FIELDS, shared=FIELDS)
def test_a_template_changes_nothing_that_the_tenant_sets(own: dict[str, Any], shared: dict[str, Any]) -> None:
    chosen = choose(tenant(own), template(**shared)).tenant
    for field, value in to_wire(tenant(own).spec).items():
        found = to_wire(chosen.spec)[field]
        assert found.items() >= value.items() if isinstance(value, dict) else found == value
    # Once more with the result is the same: the copy in the status gives what the template gave.
    copy = AppliedTemplate(name="small", settings=converted(TenantSettings, shared))
    kept = choose(tenant(own, template=copy), missing("small"))
    assert (kept.tenant.spec, kept.template) == (chosen.spec, copy)


INVALID = [
    (
        {"controlPlane": {"external": {"kubeconfigSecretRef": {"name": "x"}}}},
        {"resourceQuota": {"hard": {"pods": "1"}}},
        "spec.template: TenantTemplate small has spec.resourceQuota, which only embedded",
    ),
    ({}, {"resourceQuota": {"hard": {"count/x/y": "1"}}}, "TenantTemplate small: spec.resourceQuota.hard"),
    (
        {"resourceQuota": {"hard": {f"count/a{n}": "1" for n in range(40)}}},
        {"resourceQuota": {"hard": {f"count/b{n}": "1" for n in range(40)}}},
        "spec.template: with TenantTemplate small, .*length <= 64.*: correct one of the two",
    ),
]


@pytest.mark.parametrize(("own", "shared", "message"), INVALID)
def test_a_template_that_cannot_be_applied_is_named_with_the_field(
    own: dict[str, Any], shared: dict[str, Any], message: str
) -> None:
    last = AppliedTemplate(name="old", uid="u0", generation=1, settings=TenantSettings(weight=7))
    chosen = choose(tenant(own, template=last), template(**shared))
    assert chosen.problem is not None
    assert chosen.problem.reason == "InvalidTemplate"
    assert re.search(message, chosen.problem.message)
    assert (chosen.template, chosen.tenant.spec.weight) == (last, 7)


# ---- The controller --------------------------------------------------------------------------------------------


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def define(stage: Stage, generation: int = 1, uid: str = "u1", **spec: Any) -> None:
    stage.meta.put(TENANT_TEMPLATES, "small", metadata={"generation": generation, "uid": uid}, spec=spec)


async def settle(stage: Stage) -> None:
    for _ in range(12):  # every round is a new controller
        if await stage.reconciler(SETTINGS).reconcile("acme") != SETTINGS.poll:
            return


def shares(stage: Stage) -> dict[str, Any]:
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    found: dict[str, Any] = vc["spec"]
    return found


async def test_a_template_is_applied_everywhere_and_shown_with_its_generation(stage: Stage) -> None:
    define(
        stage,
        weight=4,
        quota={"cpu": "10", "memory": "1Gi"},
        limits={"watches": 5},
        resourceQuota={"hard": {"pods": "3"}},
    )
    stage.tenant(template="small", quota={"cpu": "20"})
    await settle(stage)
    assert (shares(stage)["weight"], shares(stage)["quota"]) == (4, {"cpu": "20", "memory": "1Gi"})
    record = stage.server.records["acme"]
    assert (record["limits"], record["weight"], record["quota"]["hard"]) == ({"watches": 5}, 4, {"pods": "3"})
    shown = stage.status()
    assert (shown["weight"], shown["template"]["name"], shown["template"]["generation"]) == (4, "small", 1)
    assert stage.condition("TemplateApplied") == (
        "True",
        "Applied",
        "generation 1 of TenantTemplate small is applied",
    )
    define(stage, generation=2, weight=2)
    await settle(stage)
    assert (shares(stage)["weight"], shares(stage)["quota"]) == (2, {"cpu": "20"})
    assert (record["limits"], record["quota"]) == (None, None)
    assert stage.status()["template"]["generation"] == 2
    assert stage.condition()[:2] == ("True", "Ready")


async def test_a_tenant_without_its_template_is_not_begun(stage: Stage) -> None:
    stage.tenant(template="small")
    await settle(stage)
    assert stage.condition()[:2] == ("False", "NoTemplate")
    assert "spec.template: there is no TenantTemplate small: create it" in stage.condition()[2]
    assert (stage.server.records, stage.meta.all(VIRTUAL_CLUSTERS)) == ({}, [])
    define(stage, weight=2)
    await settle(stage)
    assert stage.condition()[:2] == ("True", "Ready")
    assert shares(stage)["weight"] == 2


async def test_a_deleted_template_changes_nothing_that_runs_and_the_tenant_can_still_change(
    stage: Stage,
) -> None:
    define(stage, weight=4, quota={"cpu": "10"})
    stage.tenant(template="small")
    await settle(stage)
    stage.meta.remove(TENANT_TEMPLATES, "small", "")
    await settle(stage)
    assert (shares(stage)["weight"], shares(stage)["quota"]) == (4, {"cpu": "10"})
    assert stage.condition()[:2] == ("True", "Ready")
    state, reason, message = stage.condition("TemplateApplied")
    assert (state, reason) == ("False", "NoTemplate")
    assert message.endswith("; generation 1 of TenantTemplate small stays")
    stage.tenant(generation=2, template="elsewhere", weight=5, suspended=True)
    await settle(stage)
    assert (shares(stage)["weight"], shares(stage)["quota"], shares(stage)["suspended"]) == (
        5,
        {"cpu": "10"},
        True,
    )
    stage.tenant(generation=3, weight=5)
    await settle(stage)
    assert "quota" not in shares(stage)
    assert "template" not in stage.status()
    assert "TemplateApplied" not in {each["type"] for each in stage.status()["conditions"]}


async def test_a_running_tenant_that_names_no_template_of_the_kind_keeps_its_own_settings(
    stage: Stage,
) -> None:
    stage.tenant(weight=3)
    await settle(stage)
    stage.tenant(generation=2, weight=3, template="small")
    await settle(stage)
    assert shares(stage)["weight"] == 3
    assert stage.condition()[:2] == ("True", "Ready")
    assert stage.condition("TemplateApplied")[:2] == ("False", "NoTemplate")


async def test_a_template_that_was_made_anew_is_applied_although_its_generation_is_the_same(
    stage: Stage,
) -> None:
    define(stage, quota={"cpu": "10"})
    stage.tenant(template="small")
    await settle(stage)
    define(stage, uid="u2", weight=2)
    await settle(stage)
    assert "quota" not in shares(stage)
    assert stage.status()["template"]["uid"] == "u2"


async def test_a_stored_template_that_cannot_be_read_changes_nothing(stage: Stage) -> None:
    define(stage, weight=4)
    stage.tenant(template="small")
    await settle(stage)
    define(stage, generation=2, weight="many")
    await settle(stage)
    assert shares(stage)["weight"] == 4
    assert stage.condition("TemplateApplied")[:2] == ("False", "InvalidTemplate")
    assert "`spec.weight`" in stage.condition("TemplateApplied")[2]


async def test_a_tenant_that_a_command_registered_is_told_that_its_template_has_no_effect(
    stage: Stage,
) -> None:
    define(stage, weight=4)
    stage.tenant(template="small")
    found = stage.meta.found(TENANTS, "acme")
    assert found is not None
    found["metadata"]["annotations"] = {names.REGISTERED_BY: "vcsync-cli"}
    body = {"metadata": {"name": "acme"}, "spec": {"tenant": "acme"}, "status": {"phase": "Running"}}
    stage.meta.put(VIRTUAL_CLUSTERS, "acme", "vcsync", spec=body["spec"], status=body["status"])
    await settle(stage)
    assert stage.condition()[:2] == ("False", "TemplateNotApplied")


async def test_a_controller_with_the_rights_of_an_earlier_version_says_so(stage: Stage) -> None:
    stage.tenant(weight=2)
    await settle(stage)
    stage.tenant(generation=2, template="small", weight=2)

    def refuse(verb: str, plural: str, _name: str) -> None:
        if plural == "tenanttemplates":
            raise Forbidden(Status(403, "Forbidden", f"{verb} of {plural}"), endpoint="meta")

    stage.meta.before = refuse
    with pytest.raises(KubeError):
        await settle(stage)
    assert stage.condition()[1] == "Forbidden"
    assert "run 'vcsync install' again" in stage.condition()[2]
    assert shares(stage)["weight"] == 2


async def test_a_deletion_needs_no_template(stage: Stage) -> None:
    define(stage, weight=4)
    stage.tenant(template="small")
    await settle(stage)
    stage.meta.remove(TENANT_TEMPLATES, "small", "")
    await stage.delete()
    for _ in range(6):
        await settle(stage)
        stage.others_work()
    assert stage.meta.found(TENANTS, "acme") is None


class Killed(Exception):
    """The controller's process ends here."""


async def test_a_change_is_applied_whenever_the_controller_is_killed(stage: Stage) -> None:
    define(stage, weight=4, resourceQuota={"hard": {"pods": "3"}}, limits={"watches": 5})
    stage.tenant(template="small")
    await settle(stage)
    for generation in range(2, 9):
        define(
            stage,
            generation,
            weight=generation,
            resourceQuota={"hard": {"pods": str(generation)}},
            limits={"watches": generation},
        )
        left = generation - 1

        def kill(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed

        stage.meta.before = stage.server.after = kill
        with pytest.raises(Killed):
            await settle(stage)
        stage.meta.before = stage.server.after = lambda *_: None
        await settle(stage)
        record = stage.server.records["acme"]
        assert (shares(stage)["weight"], record["weight"], record["limits"]["watches"]) == (generation,) * 3
        assert record["quota"]["hard"] == {"pods": str(generation)}
        assert stage.status()["template"]["generation"] == generation
