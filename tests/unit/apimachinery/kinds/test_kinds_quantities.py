"""Quantities of volumes and extended resources beyond what Go's int64 holds, and below zero."""

import pytest

from vcsync.apimachinery.kinds.core import resources


@pytest.mark.parametrize(
    ("quantity", "refused"),
    [
        ("1", False),
        ("9223372036854775807", False),
        ("9223372036854775808", True),
        ("18446744073709551616", False),
        ("-0.5", True),
        ("-1", True),
        ("1e30", False),
    ],
)
def test_a_quantity_whose_value_is_negative_in_go_is_no_valid_resource_quantity(quantity, refused):
    found = [str(each) for each in resources.basic_quantity("spec.capacity[storage]", quantity)]
    assert len(found) == refused
    assert not refused or "must be a valid resource quantity" in found[0]


@pytest.mark.parametrize(
    ("quantity", "refused"),
    [("5", False), ("9223372036854775807", False), ("12345678901234567890", True), ("1.5", True)],
)
def test_an_extended_resource_of_more_than_63_bits_is_no_integer(quantity, refused):
    found = [
        str(each) for each in resources.resource_value("limits[example.com/x]", "example.com/x", quantity)
    ]
    assert len(found) == refused
    assert not refused or "must be an integer" in found[0]
