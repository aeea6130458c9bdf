"""Formats of strings in definitions accept what Go's parsers accept."""

import pytest

from vcsync.apimachinery.structural import formats

ACCEPTED = {
    "hostname": ["a", "a-", "a-b", "a.example", "é.example", "1µs", "+1s", "aGk=", "a.b-c.de", "x" * 63],
    "uri": [
        "http://a:99999",
        "fe80::1%eth0",
        "/a",
        "http://[::1]:80/x",
        "mailto:a@b",
        "http://é/",
        "*",
        "http://u:p@h/%41",
    ],
    "email": ["a@b.c", "a@[1.2.3.4]", '"a b"@c.d', "Name <a@b.c>"],
    "mac": ["4111111111111111", "00005e005301", "00:00:5e:00:53:01", "0000.5e00.5301", "00-00-5e-00-53-01"],
    "ssn": ["111-22-3333", "111 22 3333"],
}
REFUSED = {
    "hostname": [
        "a.b", "a.1", "1.2.3.4", "a_b", "A.B", "a.", "xn--a", "a--b", "example.c", "2024-01-01", "1.5h", "", "-a", "x" * 64,
        ".".join(["x" * 60] * 5), "é" * 32,
    ],
    "uri": ["http://%41", "a", "", "http://a b", "http://a:b", "/%zz", "http://[::1", "http://a\\b", "http://<x y>@b"],
    "email": ["a", "@b", "a@", "a@[1.2]", '""@c.d', "a b@c.d"],
    "mac": ["411111111111111", "00:00:5e:00:53", "00:00-5e:00:53:01", "zz:00:5e:00:53:01"],
    "ssn": ["111223333", "111-223333"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"), [(name, each) for name, listed in ACCEPTED.items() for each in listed]
)
def test_a_text_of_a_format_is_accepted(name: str, text: str) -> None:
    assert formats.FORMATS[name](text)


@pytest.mark.parametrize(
    ("name", "text"), [(name, each) for name, listed in REFUSED.items() for each in listed]
)
def test_a_text_of_another_format_is_refused(name: str, text: str) -> None:
    assert not formats.FORMATS[name](text)
