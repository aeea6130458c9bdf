"""Addresses that may be called, in every notation."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.egress.networks import SPECIAL, Allowed, Networks, effective_address, is_public


def networks(*allowed, denied=()):
    return Networks([Allowed(ip_network(each)) for each in allowed], [ip_network(each) for each in denied])


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:0:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:1::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ],
)
def test_addresses_that_are_not_public_are_closed(address):
    for open_to_all in (networks(), networks("0.0.0.0/0", "::/0"), networks("1.0.0.0/8")):
        assert not open_to_all.permits(ip_address(address), "t")
        assert not open_to_all.named(ip_address(address), "t")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_open_but_only_the_operator_names_them(address):
    assert networks().permits(ip_address(address), "t")
    assert not networks().named(ip_address(address), "t")
    assert networks("8.8.8.0/24", "2606:4700::/32").named(ip_address(address), "t")


@pytest.mark.parametrize(
    ("allowed", "address", "open_"),
    [
        ("127.0.0.1/32", "127.0.0.1", True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", True),
        ("127.0.0.1/32", "127.0.0.2", False),
        ("126.0.0.0/7", "127.0.0.1", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("8.0.0.0/5", "10.1.2.3", False),
        ("169.254.0.0/16", "169.254.1.1", True),
        ("169.254.0.0/16", "169.254.169.254", False),
        ("169.254.169.254/32", "169.254.169.254", True),
        ("fd00::/8", "fd00:ec2::254", False),
        ("fd00::/8", "fd00:1::1", True),
        ("100.64.0.0/10", "100.100.100.200", False),
        ("::1/128", "::1", True),
        ("::1/128", "127.0.0.1", False),
        ("64:ff9b::/96", "64:ff9b::7f00:1", False),
        ("2002::/16", "2002:7f00:1::", False),
    ],
)
def test_a_network_opens_only_special_ranges_that_contain_it(allowed, address, open_):
    assert networks(allowed).permits(ip_address(address), "t") is open_
    assert networks(allowed).named(ip_address(address), "t") is open_


def test_a_network_of_one_tenant_is_closed_to_others():
    found = Networks([Allowed(ip_network("10.4.0.0/16"), "acme")])
    assert found.permits(ip_address("10.4.0.1"), "acme")
    assert not found.permits(ip_address("10.4.0.1"), "other")


def test_denied_networks_take_precedence_over_embedded_addresses():
    found = networks("10.0.0.0/8", denied=["8.8.0.0/16", "10.9.0.0/16"])
    for address in ("8.8.8.8", "::ffff:8.8.8.8", "2002:808:808::", "10.9.0.1", "::ffff:10.9.0.1"):
        assert not found.permits(ip_address(address), "t")
    assert found.permits(ip_address("10.8.0.1"), "t")


@given(st.ip_addresses(v=4))
def test_an_embedded_address_opens_no_more_than_the_address_itself(address: IPv4Address):
    bits = int(address)
    disguises = [bits, 0xFFFF << 32 | bits, 0xFFFF0000 << 32 | bits]
    disguises += [0x64FF9B << 96 | bits, 0x2002 << 112 | bits << 80 | 1]
    found = networks("10.0.0.0/8", "127.0.0.1/32")
    for each in disguises:
        real = effective_address(IPv6Address(each))
        assert each in (0, 1) or real == address
        assert each in (0, 1) or found.permits(IPv6Address(each), "t") == found.permits(address, "t")


@given(st.sampled_from(SPECIAL), st.data())
def test_special_ranges_are_closed_except_for_embedded_public_addresses(network, data):
    address = network[data.draw(st.integers(0, min(network.num_addresses - 1, 2**64)))]
    real = effective_address(address)
    assert not is_public(address)
    # An embedded IPv4 address, as in ::8.8.8.8, decides for the address that contains it.
    assert networks().permits(address, "t") is (real is not None and is_public(real))
