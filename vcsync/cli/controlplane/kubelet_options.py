"""The option of `vcsync run controlplane` that allows calls to kubelets: for logs, exec, attach and port-forward."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from vcsync.api.names import is_dns_label
from vcsync.apiserver.egress.networks import Allowed, Networks, parse_network
from vcsync.cli.command.errors import WrongInputError

OPTION = "--kubelet-allow-network"
LOOPBACK = "127.0.0.1"

kubelet_option = click.option(
    OPTION,
    metavar="SPACE=CIDR",
    multiple=True,
    help="Network in which kubelets of a space's Nodes may be called, for logs and exec. Never name a tenant's "
    "space: anyone who can write its Nodes chooses the called address. Default: none.",
)


def kubelets_of(given: Mapping[str, Any]) -> Networks:
    """Return the kubelets that the option's values allow.

    Raises:
        WrongInputError: a value is malformed.
    """
    return Networks(tuple(_allowed(each) for each in given["kubelet_allow_network"]))


def with_own_kubelets(networks: Networks, spaces: Iterable[str]) -> Networks:
    """Return the networks, with loopback allowed for kubelets of these spaces."""
    own = (Allowed(parse_network(LOOPBACK), space) for space in spaces)
    return Networks((*networks.allowed, *own), networks.denied)


def _allowed(text: str) -> Allowed:
    space, equals, network = text.partition("=")
    if not equals or not is_dns_label(space):
        raise WrongInputError(f"{OPTION} {text!r}: give SPACE=CIDR, for instance r1=127.0.0.1/32")
    try:
        return Allowed(parse_network(network), space)
    except ValueError as error:
        raise WrongInputError(f"{OPTION} {text!r}: {error}; write the network like 10.4.0.0/16") from error
