"""Ranges of IP addresses."""

import pytest

from vcsync.objects.address_ranges import address_range, address_ranges, covers, has_address


@pytest.mark.parametrize(
    "text", ["", "10.64.0.0", "10.64.0.1/20", "10.64.0.0/33", "10.64/16x", "x/8", "fd00::1/64"]
)
def test_what_is_no_range(text: str) -> None:
    assert address_range(text) is None


@pytest.mark.parametrize(
    ("cidr", "address", "inside"),
    [
        ("10.64.0.0/20", "10.64.0.0", True),
        ("10.64.0.0/20", "10.64.15.255", True),
        ("10.64.0.0/20", "10.64.16.0", False),
        ("10.64.0.0/20", "fd00::1", False),
        ("fd00::/108", "fd00::f", True),
        ("fd00::/108", "10.64.0.1", False),
        ("10.64.0.0/20", "None", False),
        ("10.64.0.0/20", "", False),
    ],
)
def test_addresses_in_a_range(cidr: str, address: str, inside: bool) -> None:
    within = address_range(cidr)
    assert within is not None
    assert has_address(within, address) is inside


@pytest.mark.parametrize(
    ("outer", "inner", "whole"),
    [
        ("10.64.0.0/10", "10.64.0.0/20", True),
        ("10.64.0.0/20", "10.64.0.0/20", True),
        ("10.64.0.0/20", "10.64.0.0/19", False),
        ("10.64.0.0/20", "10.64.16.0/20", False),
        ("::/0", "10.64.0.0/20", False),
        ("fd00::/16", "fd00:1::/64", True),
    ],
)
def test_ranges_in_a_range(outer: str, inner: str, whole: bool) -> None:
    found = address_range(outer), address_range(inner)
    assert found[0] is not None
    assert found[1] is not None
    assert covers(found[0], found[1]) is whole


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10.64.0.0/20", 1),
        ("10.64.0.0/20,fd00::/116", 2),
        ("fd00::/116,10.64.0.0/20", 2),
        ("10.64.0.0/20,10.65.0.0/20", 0),
        ("10.64.0.0/20,", 0),
        ("10.64.0.0/20, fd00::/116", 0),
        ("10.64.0.0/20,fd00::/116,fd01::/116", 0),
        ("", 0),
    ],
)
def test_one_range_of_each_family(text: str, count: int) -> None:
    assert len(address_ranges(text)) == count
