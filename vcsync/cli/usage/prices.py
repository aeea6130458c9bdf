"""Prices of what tenants use: a file of the operator, and those of super clusters."""

from decimal import Decimal, InvalidOperation
from pathlib import Path

import yaml

from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.usage import amounts, pods
from vcsync.kube.client import Client

NAMES = (*amounts.PRICES, *pods.PRICES)
"""Names that a file of prices may contain."""


def read_prices(file: Path) -> dict[str, Decimal]:
    """Read a file of prices.

    Raises:
        WrongInputError: It cannot be read, or a name or a price is not known.
    """
    try:
        # Texts, because binary fractions would change the prices.
        found = yaml.load(file.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts only
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WrongInputError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise WrongInputError(f"{file}: give prices by name, such as 'writes: 0.000001'")
    return {str(name): _price(file, name, value) for name, value in found.items()}


def _price(file: Path, name: str, value: object) -> Decimal:
    if name not in NAMES:
        raise WrongInputError(f"{file}: {name!r} has no price; names are {', '.join(NAMES)}")
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or price < 0:
        raise WrongInputError(f"{file}: {name}: give a decimal number that is not negative")
    return price


async def super_cluster_prices(client: Client) -> dict[str, dict[str, Decimal]]:
    """Return the prices of all super clusters, by id and name of the resource.

    Raises:
        KubeError: They cannot be read.
    """
    found = [SuperCluster.from_envelope(each) for each in await client.list(SUPER_CLUSTERS)]
    return {
        each.spec.id: {
            name: Decimal(price) for name, price in each.spec.prices.items() if name in pods.PRICES
        }
        for each in found
    }
