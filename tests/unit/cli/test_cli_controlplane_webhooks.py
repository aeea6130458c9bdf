"""Options that allow calls of webhooks."""

from ipaddress import ip_address

import click
import pytest
from click.testing import CliRunner

from vcsync.cli.controlplane.webhook_options import webhook_options, webhooks_of


def policy(*arguments):
    found = []

    @click.command()
    @webhook_options
    def command(**given):
        found.append(webhooks_of(given))

    run = CliRunner().invoke(command, arguments)
    return found[0] if found else run.output


def test_no_webhook_is_allowed_by_default():
    found = policy()
    assert (found.hosts, found.networks.allowed, found.trusted) == ((), (), False)


def test_hosts_and_networks_can_be_limited_to_one_tenant():
    found = policy(
        "--webhook-allow-host", "acme=*.example.com:8443",
        "--webhook-allow-host", "[::1]:*",
        "--webhook-allow-network", "acme=10.4.0.0/16",
        "--webhook-deny-network", "203.0.113.0/24",
    )  # fmt: skip
    first, second = found.hosts
    assert (first.host, first.port, first.tenant) == ("*.example.com", 8443, "acme")
    assert (second.host, second.tenant) == ("::1", "")
    assert found.networks.named(ip_address("10.4.0.1"), "acme")
    assert not found.networks.named(ip_address("10.4.0.1"), "other")
    assert str(found.networks.denied[0]) == "203.0.113.0/24"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--webhook-allow-host", "https://example.com", "without scheme and path"),
        ("--webhook-allow-host", "acme=", "the host is a name"),
        ("--webhook-allow-network", "10.0.0.1/8", "has host bits set"),
        ("--webhook-allow-network", "acme=everything", "write it like 10.4.0.0/16"),
        ("--webhook-deny-network", "x", "write it like 10.4.0.0/16"),
    ],
)
def test_malformed_values_are_refused_with_a_hint(option, value, expected):
    found = policy(option, value)
    assert option in found
    assert expected in found
