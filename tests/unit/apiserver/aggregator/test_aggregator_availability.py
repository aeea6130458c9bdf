"""The condition Available: decided from objects, and written where it differs."""

import pytest

from vcsync.apiserver.aggregator.availability import (
    FAILED,
    PASSED,
    differs,
    failed,
    not_forwarded,
    outline,
    problem,
    with_condition,
)
from vcsync.apiserver.discovery.remote_api_services import (
    Condition,
    Destination,
    RemoteApiService,
    ServiceReference,
)

SERVICE = RemoteApiService(
    "acme", "u", "m.io", "v1", Destination(ServiceReference("shop", "web", 443)), 100, 10, None, 1, 1
)
NOW, BEFORE = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"


def with_ports(*ports, **spec):
    return {"spec": {"ports": [{"port": number, "name": name} for number, name in ports], **spec}}


def endpoint_slice(*endpoints, service="web", port="https", number=8443):
    return {
        "metadata": {"labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": port, "port": number}],
        "endpoints": list(endpoints),
    }


READY, UNKNOWN, UNREADY = {"conditions": {"ready": True}}, {}, {"conditions": {"ready": False}}


@pytest.mark.parametrize(
    ("found", "slices", "reason"),
    [
        (None, [], "ServiceNotFound"),
        ({}, [], "ServicePortError"),
        (with_ports((80, "http")), [], "ServicePortError"),
        (with_ports((443, "https")), [], "EndpointsNotFound"),
        (with_ports((443, "https")), [endpoint_slice(READY, service="other")], "EndpointsNotFound"),
        (with_ports((443, "https")), [endpoint_slice()], "MissingEndpoints"),
        (with_ports((443, "https")), [endpoint_slice(UNREADY)], "MissingEndpoints"),
        (with_ports((443, "https")), [endpoint_slice(READY, port="http")], "MissingEndpoints"),
        (with_ports((443, "https")), [endpoint_slice(READY, number=None)], "MissingEndpoints"),
        (with_ports((443, "https")), [endpoint_slice(), endpoint_slice(UNREADY, READY)], ""),
        (with_ports((443, "https")), [endpoint_slice(UNKNOWN)], ""),
        (with_ports((80, "http"), type="ExternalName"), [], ""),
    ],
)
def test_objects_are_checked_in_upstreams_order(found, slices, reason):
    condition = problem(SERVICE, found, [outline(each) for each in slices])
    assert (condition.reason if condition is not None else "") == reason
    assert condition is None or condition.status == "False"


def test_a_service_without_names_of_ports_matches_slices_without_them():
    assert problem(SERVICE, {"spec": {"ports": [{"port": 443}]}}, [endpoint_slice(READY, port=None)]) is None


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [
        (None, PASSED, True),
        (PASSED, PASSED, False),
        (PASSED, failed("a"), True),
        (failed("a"), failed("b"), False),
        (failed("a"), not_forwarded("a"), True),
        (not_forwarded("a"), not_forwarded("b"), True),
        (Condition("Available", "Unknown", FAILED, "a"), failed("a"), True),
    ],
)
def test_only_differences_are_written_that_all_processes_see(before, now, written):
    assert differs(before, now) is written


@pytest.mark.parametrize(("last", "written"), [(None, False), ("b", False), ("c", True)])
def test_the_message_of_a_failed_check_is_written_once_it_changes_in_this_process(last, written):
    assert differs(failed("a"), failed("b"), last) is written
    assert differs(failed("b"), failed("b"), last) is False


def test_the_time_of_a_condition_changes_with_its_status_only():
    first = with_condition({"spec": {}}, failed("a"), BEFORE)
    assert first["status"]["conditions"] == [
        {
            "type": "Available",
            "status": "False",
            "lastTransitionTime": BEFORE,
            "reason": FAILED,
            "message": "a",
        }
    ]
    second = with_condition(first, not_forwarded("b"), NOW)
    assert second["status"]["conditions"][0]["lastTransitionTime"] == BEFORE
    assert second["status"]["conditions"][0]["message"] == "b"
    third = with_condition(second, PASSED, NOW)
    assert third["status"]["conditions"][0]["lastTransitionTime"] == NOW


def test_other_conditions_stay():
    other = {"type": "Other", "status": "True"}
    found = with_condition({"status": {"conditions": [other], "more": 1}}, PASSED, NOW)
    assert found["status"]["conditions"][0] == other
    assert found["status"]["conditions"][1]["type"] == "Available"
    assert found["status"]["more"] == 1
