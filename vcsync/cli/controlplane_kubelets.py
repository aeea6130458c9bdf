"""The option of `vcsync run controlplane` that lets it call kubelets: for logs, exec, attach and port-forward."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from vcsync.api.names import is_dns_label
from vcsync.cli.errors import WrongInputError
from vcsync.controlplane.egress.networks import Allowed, Networks, parse_network

OPTION = "--kubelet-allow-network"
LOOPBACK = "127.0.0.1"

kubelet_option = click.option(
    OPTION,
    metavar="SPACE=CIDR",
    multiple=True,
    help="Where kubelets of a space's Nodes may be called, for logs and exec. Never name a tenant's space: "
    "whoever writes its Nodes chooses what is called there. Default: none.",
)


def kubelets_of(given: Mapping[str, Any]) -> Networks:
    """Return which kubelets the option's values let be called.

    Raises:
        WrongInputError: one cannot be read.
    """
    return Networks(tuple(_allowed(each) for each in given["kubelet_allow_network"]))


def with_own_kubelets(networks: Networks, spaces: Iterable[str]) -> Networks:
    """Return networks, and that kubelets of some spaces are on this machine."""
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
