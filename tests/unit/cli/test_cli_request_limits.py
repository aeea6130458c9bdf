"""Limits of requests as options of commands."""

import pytest

from vcsync.apiserver.tenants.request_limits import RequestLimits, TenantLimits
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.controlplane.limit_options import LimitOptions, limits_of, parse_limits
from vcsync.cli.tenant.set import shown_limits

GIVEN = {
    "max_requests_inflight": 1,
    "max_mutating_requests_inflight": 2,
    "max_watches_per_tenant": 3,
    "max_connections": 4,
    "max_connection_rate": 5,
    "storage_limit_per_tenant": "6Ki",
    "object_limit_per_tenant": 7,
    "usage_days": 8,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("watches=0", {"watches": 0}),
        (
            "readsPerSecond=100, bytesPerSecond=10Mi,",
            {"readsPerSecond": 100, "bytesPerSecond": 10 * 2**20},
        ),
    ],
)
def test_limits_are_parsed(text: str, expected: dict[str, int]) -> None:
    assert parse_limits("--limits", text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reads=1", "--limits: there is no limit 'reads'; known limits: readsPerSecond, readBurst"),
        ("watches", "--limits: watches='': give a number from 0"),
        ("watches=-1", "give a number from 0 (no limit) to 1000000"),
        ("watches=1000001", "give a number from 0 (no limit) to 1000000"),
        ("watches=1,watches=2", "--limits: watches is given twice"),
        ("bytesPerSecond=fast", "--limits: bytesPerSecond 'fast': give bytes"),
    ],
)
def test_a_malformed_limit_is_named_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(WrongInputError) as caught:
        parse_limits("--limits", text)
    assert message in str(caught.value)


def test_the_defaults_of_tenants_and_users_are_options_of_the_control_plane() -> None:
    found = limits_of({**GIVEN, "tenant_limits": "watches=9", "user_limits": "readsPerSecond=3"})
    limits = TenantLimits(watches=9, user=RequestLimits(reads_per_second=3))
    assert found == LimitOptions(1, 2, 3, 4, 5, 6 * 1024, 7, 8, limits)
    assert limits_of({**GIVEN, "tenant_limits": "", "user_limits": ""}).requests == TenantLimits()


def test_limits_are_shown_as_they_are_given() -> None:
    assert shown_limits({"watches": 1, "user": {"watches": 2}}) == "watches=1,user.watches=2"
    assert shown_limits({}) == "those of all tenants"
