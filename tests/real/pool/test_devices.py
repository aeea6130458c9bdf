"""ResourceClaims of tenants on real API servers and schedulers: from a published DeviceClass to devices, and to their end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from charts_kit import differences
from device_kit import (
    CLAIMS,
    CLASSES,
    GROUP,
    claim,
    shown,
    template,
    there,
    user,
    with_devices,
)
from pool_kit import SLICE, Json, Pool, Space, read, super_of
from volume_kit import reason

from hack.testbed.classes import DEVICE, DRIVER, device_class
from tests.real.waiting import eventually
from vcsync.api import names


@pytest.fixture(scope="module")
def devices(pool: Pool) -> Iterator[Pool]:
    """The pool, whose operator publishes class `gpu` in r1 and r2, and `large` only in r2."""
    with with_devices(pool, {"r1": ("gpu",), "r2": ("gpu", "large")}):
        yield pool


@pytest.fixture
def lab(devices: Pool) -> Iterator[Space]:
    with devices.space() as space:
        eventually(lambda: shown(space, "gpu") == "r1,r2" and shown(space, "large") == "r2")
        yield space


def allocated(space: Space, name: str, *pods: str) -> Json:
    """Wait until a claim is shown as allocated and reserved for exactly these Pods, and return it."""

    def check() -> Json:
        found = space.get(CLAIMS, name, GROUP)
        assert found is not None
        status = found.get("status") or {}
        reserved = {(each["name"], each["uid"]) for each in status.get("reservedFor") or ()}
        wanted = {(each, (space.get("pods", each) or {})["metadata"]["uid"]) for each in pods}
        assert ("allocation" in status, reserved) == (bool(pods), wanted), found
        return found

    return eventually(check)


def test_published_classes_tell_nothing_of_the_operators_devices(lab: Space) -> None:
    found = read(lab.tenant, f"{CLASSES}/gpu")
    assert found is not None
    assert found["spec"] == {}


def test_a_pod_gets_devices_where_its_class_is_published(lab: Space) -> None:
    lab.apply(claim("one", "large"), user("trainer", "one"))
    assert super_of(lab.running("trainer")) == "r2"
    found = allocated(lab, "one", "trainer")
    assert found["metadata"]["labels"][names.SUPER_CLUSTER] == "r2"
    copy = there(lab, "r2", "one")
    assert copy is not None
    [device] = copy["status"]["allocation"]["devices"]["results"]
    assert device["driver"] == DRIVER
    text = json.dumps(found)
    for hidden in (DRIVER, DEVICE, lab.super_name, device["pool"]):
        assert hidden not in text
    eventually(lambda: differences(lab) == [])
    lab.kubectl("delete", "pod", "trainer")
    allocated(lab, "one")
    eventually(lambda: "allocation" not in ((there(lab, "r2", "one") or {}).get("status") or {}))


def test_pods_share_a_claim_on_its_super_cluster(lab: Space) -> None:
    lab.apply(claim("shared"), user("first", "shared"))
    home = super_of(lab.running("first"))
    lab.apply(user("second", "shared"))
    assert super_of(lab.running("second")) == home
    allocated(lab, "shared", "first", "second")


def test_each_pod_gets_a_claim_of_its_own_from_a_template(lab: Space) -> None:
    lab.apply(template("gpus"), user("first", of_template="gpus"), user("second", of_template="gpus"))
    made = {}
    for name in ("first", "second"):
        pod = lab.running(name)
        [status] = pod["status"]["resourceClaimStatuses"]
        made[name] = status["resourceClaimName"]
        allocated(lab, made[name], name)
        copy = lab.there(super_of(pod), "pods", name)
        assert copy is not None
        assert copy["spec"]["resourceClaims"] == [{"name": "made", "resourceClaimName": made[name]}]
    assert made["first"] != made["second"]
    lab.kubectl("delete", "pod", "first")
    eventually(lambda: lab.get(CLAIMS, made["first"], GROUP) is None)
    eventually(lambda: all(there(lab, each, made["first"]) is None for each in ("r1", "r2")))
    assert lab.get(CLAIMS, made["second"], GROUP) is not None


def test_a_pod_waits_with_the_reason_for_a_class_that_is_not_published_there(lab: Space) -> None:
    lab.apply(claim("one", "large"), user("trainer", "one", on="r1"))
    reason(lab, "trainer", "r1: does not publish DeviceClass large of claim one")
    lab.apply(user("early", "absent"))
    reason(lab, "early", 'resourceclaim "absent" not found')
    lab.apply(claim("absent"))
    lab.running("early")


def test_commands_to_the_operators_drivers_are_refused(lab: Space) -> None:
    body = claim("commands")
    opaque = {"driver": DRIVER, "parameters": {"mode": "unsafe"}}
    body["spec"]["devices"]["config"] = [{"opaque": opaque}]
    lab.apply(body, user("trainer", "commands"))

    [event] = eventually(lambda: lab.events("commands", "PolicyRefused"))
    assert "spec.devices.config is not allowed here" in event["message"]
    assert all(there(lab, each, "commands") is None for each in ("r1", "r2"))


@pytest.mark.parametrize("name", ["gpu", "absent"])
def test_devices_by_the_name_of_a_class_are_refused(lab: Space, name: str) -> None:
    body = user("grabber")
    resource = {f"deviceclass.resource.kubernetes.io/{name}": "1"}
    resources = body["spec"]["containers"][0]["resources"]
    body["spec"]["containers"][0]["resources"] = {
        **resources,
        "requests": {**(resources.get("requests") or {}), **resource},
        "limits": {**(resources.get("limits") or {}), **resource},
    }
    lab.apply(body)
    [event] = eventually(lambda: lab.events("grabber", "PolicyRefused"))
    assert "use a ResourceClaim in spec.resourceClaims" in event["message"]
    assert all(lab.there(each, "pods", "grabber") is None for each in ("r1", "r2"))


def test_slices_limit_the_devices_of_each_class(devices: Pool) -> None:
    with devices.configured("acme", sliceSize={**SLICE, "devices": "2"}), devices.space() as space:
        eventually(lambda: shown(space, "gpu") == "r1,r2")
        space.apply(claim("two", count=2), user("first", "two", on="r1"))
        space.running("first")
        space.apply(claim("third"), user("second", "third", on="r1"))
        [event] = eventually(lambda: space.events("third", "FailedCreate"))
        assert "exceeded quota" in event["message"]
        space.kubectl("delete", "pod", "first")
        space.kubectl("delete", CLAIMS, "two")
        eventually(lambda: there(space, "r1", "two") is None)
        eventually(lambda: there(space, "r1", "third") is not None, 90)
        space.running("second")


def test_a_claim_that_gets_no_devices_moves_on_when_its_class_is_withdrawn(lab: Space) -> None:
    r1, r2 = (lab.pool.supers[each] for each in ("r1", "r2"))
    body = json.dumps(device_class("late"))
    r1.kubectl("apply", "-f", "-", input=body)
    try:
        eventually(lambda: shown(lab, "late") == "r1")
        nothing = [{"cel": {"expression": "false"}}]
        lab.apply(claim("one", "late", selectors=nothing), user("trainer", "one"))
        eventually(lambda: there(lab, "r1", "one") is not None)
        r2.kubectl("apply", "-f", "-", input=body)
        eventually(lambda: shown(lab, "late") == "r1,r2")
        r1.kubectl("label", "deviceclass", "late", f"{names.SUPER_PUBLIC}-")
        eventually(lambda: [there(lab, each, "one") is None for each in ("r1", "r2")] == [True, False])
        assert super_of(lab.get("pods", "trainer") or {"metadata": {}}) == "r2"
    finally:
        for cluster in (r1, r2):
            cluster.kubectl("delete", "deviceclass", "late", "--ignore-not-found")


def test_a_drain_takes_claims_to_another_super_cluster(lab: Space) -> None:
    lab.apply(claim("one"), user("trainer", "one", on="r1"))
    lab.running("trainer")
    lab.pin(r2=2)
    eventually(lambda: "r1" not in lab.placements(), 90)
    eventually(lambda: there(lab, "r1", "one") is None, 90)
    eventually(lambda: lab.get("pods", "trainer") is None, 90)
    lab.apply(user("later", "one"))
    assert super_of(lab.running("later")) == "r2"
    allocated(lab, "one", "later")


def test_selectors_choose_among_the_devices_of_the_class(lab: Space) -> None:
    expression = f'device.attributes["{DRIVER}"].model == "small"'
    lab.apply(claim("small", selectors=[{"cel": {"expression": expression}}]), user("trainer", "small"))
    home = super_of(lab.running("trainer"))
    copy = there(lab, home, "small")
    assert copy is not None
    [device] = copy["status"]["allocation"]["devices"]["results"]
    assert device["device"] == f"{DEVICE}-0"


def test_what_a_tenant_writes_into_a_claim_is_repaired(lab: Space) -> None:
    lab.apply(claim("one"), user("trainer", "one"))
    home = super_of(lab.running("trainer"))
    allocated(lab, "one", "trainer")
    lab.apply(claim("forged"))
    result = {"request": "gpu", "driver": "mine.example.com", "pool": "p", "device": "d"}
    forged = {"status": {"allocation": {"devices": {"results": [result]}}}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(forged))
    lab.kubectl("patch", CLAIMS, "forged", *patch)
    lab.apply(user("other", "forged"))
    lab.running("other")
    eventually(lambda: "mine.example.com" not in json.dumps(allocated(lab, "forged", "other")))
    lab.kubectl("label", CLAIMS, "one", f"{names.SUPER_CLUSTER}-")
    eventually(lambda: super_of(lab.get(CLAIMS, "one", GROUP) or {"metadata": {}}) == home)
    lab.kubectl(
        "patch", CLAIMS, "one", "--subresource=status", "--type=merge", "-p", json.dumps({"status": None})
    )
    allocated(lab, "one", "trainer")
