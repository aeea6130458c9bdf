"""Amounts of resources formatted for people."""

import pytest

from vcsync.objects.readable_amounts import readable


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        ("0", "cpu", "0"),
        ("100m", "cpu", "100m"),
        ("1", "cpu", "1"),
        ("1500m", "requests.cpu", "1.5"),
        ("1234m", "limits.cpu", "1.234"),
        ("303640m", "cpu", "303.6"),
        ("100", "cpu", "100"),
        ("0", "memory", "0"),
        ("1023", "memory", "1023"),
        ("1024", "memory", "1Ki"),
        ("1536Mi", "requests.memory", "1.5Gi"),
        ("1000Mi", "memory", "1000Mi"),
        ("1048575", "memory", "1Mi"),
        ("123456789", "ephemeral-storage", "118Mi"),
        ("2Ti", "requests.storage", "2Ti"),
        ("5000Pi", "storage", "4.88Ei"),
        ("64Mi", "hugepages-2Mi", "64Mi"),
        ("3", "pods", "3"),
        ("1500m", "example.com/gpu", "1500m"),
        ("much", "cpu", "much"),
    ],
)
def test_amounts_are_short_and_rounded(amount: str, resource: str, text: str) -> None:
    assert readable(amount, resource) == text
