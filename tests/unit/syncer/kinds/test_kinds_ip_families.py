"""A tenant is told once where its Service has one of the two IP families that it requires."""

from typing import Any

import pytest
from kinds_bench import Bench

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.syncer.kinds.ip_families import ONE_FAMILY, only_family
from vcsync.syncer.kinds.plan import Notify

PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]


def put(bench: Bench, policy: str) -> None:
    spec = {"ports": PORTS, "selector": {"app": "web"}, "ipFamilyPolicy": policy}
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": spec})


def notices(bench: Bench) -> list[Notify]:
    """Bring the copy to rest, and return what the tenant is told on the way."""
    plans = bench.settle("services", "shop", "web")
    actions = [action for plan in plans for action in plan.actions]
    return [each for each in actions if isinstance(each, Notify) and each.reason == ONE_FAMILY]


def copy_of(bench: Bench) -> dict[str, Any]:
    return bench.get("super", SERVICES, "web")


@pytest.mark.parametrize(
    ("policy", "actual", "family"),
    [
        ("RequireDualStack", {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}, "IPv4"),
        ("RequireDualStack", {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}, "IPv6"),
        ("RequireDualStack", {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}, ""),
        ("RequireDualStack", {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}, ""),
        ("RequireDualStack", {"type": "ExternalName"}, ""),
        ("PreferDualStack", {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}, ""),
        ("SingleStack", {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}, ""),
        (None, {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}, ""),
    ],
)
def test_a_family_is_missing_only_where_two_are_required_and_the_copy_asks_for_them(
    policy: str | None, actual: dict[str, Any], family: str
) -> None:
    assert only_family({"ipFamilyPolicy": policy} if policy else {}, actual) == family


def test_the_tenant_is_told_once_and_again_only_after_it_has_asked_for_less(bench: Bench) -> None:
    put(bench, "RequireDualStack")
    [notice] = notices(bench)
    assert notice.type == "Warning"
    assert "spec.ipFamilyPolicy RequireDualStack: super cluster r1 has IPv4 addresses only" in notice.message
    assert notices(bench) == []
    bench.edit("tenant", SERVICES, "web", {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
    assert notices(bench) == []
    assert names.REFUSED not in copy_of(bench)["metadata"]["annotations"]
    bench.edit("tenant", SERVICES, "web", {"spec": {"ipFamilyPolicy": "RequireDualStack"}})
    assert len(notices(bench)) == 1


def test_a_change_from_one_family_is_reported_only_after_the_super_cluster_has_answered(bench: Bench) -> None:
    put(bench, "SingleStack")
    assert notices(bench) == []
    bench.edit("tenant", SERVICES, "web", {"spec": {"ipFamilyPolicy": "RequireDualStack"}})
    first = bench.plan("services", "shop", "web")
    assert not any(isinstance(each, Notify) for each in first.actions)
    assert len(notices(bench)) == 1


def test_a_super_cluster_with_both_families_reports_nothing(bench: Bench) -> None:
    put(bench, "PreferDualStack")
    bench.settle("services", "shop", "web")
    copy_of(bench)["spec"].update(clusterIPs=["10.0.0.7", "fd00::7"], ipFamilies=["IPv4", "IPv6"])
    bench.edit("tenant", SERVICES, "web", {"spec": {"ipFamilyPolicy": "RequireDualStack"}})
    assert notices(bench) == []
