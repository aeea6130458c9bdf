"""`vcsync what-if`: what the namespace scheduler would do if the pool, the tenants or the settings changed."""

import asyncio
from fractions import Fraction
from pathlib import Path

import click

from vcsync.api.fields import PercentOrQuantity
from vcsync.api.names import is_dns_label
from vcsync.cli.command.common import meta_option, output_option, parse_amounts
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document, print_names
from vcsync.cli.whatif.reading import default_slice_option, policy_choice, read_file, slice_of, take
from vcsync.cli.whatif.rendering import advice_text, answer_plain, answer_text
from vcsync.objects.quantity import milli
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.whatif.advice import Advice, headroom_advice
from vcsync.whatif.answer import Answer, answer
from vcsync.whatif.edits import Edits, InvalidEdit, edited
from vcsync.whatif.snapshot import InvalidSnapshot, Snapshot, SuperState, as_plain, millionths

_LARGEST_FACTOR = 1000
_PRICE = "price."
_LABEL = "label."


@click.command(
    name="what-if",
    epilog=example(
        "vcsync what-if --lose r2",
        "vcsync what-if --advise-headroom",
        "vcsync what-if --snapshot pool.json --scale-tenant acme=2 --add-super r9=cpu=64,memory=256Gi",
    ),
)
@click.option(
    "--snapshot",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ask about this file of 'vcsync snapshot save' (default: the pool as it is now).",
)
@click.option(
    "--lose", multiple=True, metavar="ID", help="Take this super cluster out of the pool; may be repeated."
)
@click.option(
    "--add-super",
    multiple=True,
    metavar="NAME=RESOURCE=AMOUNT,...",
    help="Add a super cluster (r9=cpu=64,memory=256Gi,pods=500,price.cpu=0.04); may be repeated.",
)
@click.option(
    "--scale-tenant",
    multiple=True,
    metavar="TENANT=FACTOR",
    help="Multiply the quotas of a tenant's namespaces, and its cap; may be repeated.",
)
@click.option(
    "--slice-size",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="Another --default-slice of the namespace scheduler (cpu=4,memory=8Gi).",
)
@click.option(
    "--headroom",
    multiple=True,
    metavar="RESOURCE=SHARE",
    help="Another headroom of all super clusters: a percentage or an amount (cpu=10%,memory=8Gi).",
)
@click.option("--policy", type=policy_choice, help="Another --policy of the namespace scheduler.")
@click.option(
    "--advise-headroom",
    is_flag=True,
    help="Show instead the least headroom with which the pool survives the loss of any one super cluster.",
)
@default_slice_option
@output_option
@meta_option
def what_if(  # noqa: PLR0917  one command's options
    file: Path | None,
    lose: tuple[str, ...],
    add_super: tuple[str, ...],
    scale_tenant: tuple[str, ...],
    slice_size: tuple[str, ...],
    headroom: tuple[str, ...],
    policy: str | None,
    advise_headroom: bool,
    default_slice: tuple[str, ...],
    form: str,
    meta: str | None,
) -> None:
    """Show which slices would move or wait, and use and price per super cluster, if something changed.

    Without changes it shows what the namespace scheduler still has to do. Nothing is written to any cluster. Placed
    slices stay where they are as long as their super cluster exists: another policy or a larger headroom concerns new slices.
    """
    edits = Edits(
        lose=lose,
        add=tuple(map(_super_cluster, add_super)),
        scale=dict(map(_factor, scale_tenant)),
        slice_size=slice_of("--slice-size", slice_size) if slice_size else {},
        headroom=_headroom("--headroom", headroom),
        policy=policy or "",
    )
    snapshot = _snapshot(file, policy, default_slice, meta)
    try:
        if advise_headroom:
            _tell_advice(headroom_advice(edited(snapshot, edits)), form)
        else:
            _tell_answer(answer(snapshot, edits), form)
    except (InvalidEdit, InvalidSnapshot) as error:
        raise WrongInputError(str(error)) from error


def _tell_answer(found: Answer, form: str) -> None:
    if form in ("table", "wide"):
        click.echo(answer_text(found))
    elif form == "name":
        print_names(f"namespace/{each.tenant}/{each.namespace}" for each in found.namespaces)
    else:
        click.echo(document(answer_plain(found), form))


def _tell_advice(found: Advice, form: str) -> None:
    if form in ("table", "wide"):
        click.echo(advice_text(found))
    elif form == "name":
        print_names(f"supercluster/{each.super_cluster}" for each in found.losses)
    else:
        click.echo(document(as_plain(found), form))


def _snapshot(
    file: Path | None, policy: str | None, default_slice: tuple[str, ...], meta: str | None
) -> Snapshot:
    if file is not None:
        return read_file(file)
    return asyncio.run(take(meta, policy or "spread", slice_of("--default-slice", default_slice)))


def _headroom(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    return parse_amounts(option, texts, kind=PercentOrQuantity, known=(*DIMENSIONS, PODS)) if texts else {}


def _factor(text: str) -> tuple[str, Fraction]:
    """Parse `acme=2`.

    Raises:
        WrongInputError: the text is malformed.
    """
    name, equals, number = text.partition("=")
    try:
        factor = Fraction(milli(number), 1000)
    except ValueError:
        factor = Fraction(-1)
    if not equals or not name or not 0 <= factor <= _LARGEST_FACTOR:
        raise WrongInputError(
            f"--scale-tenant {text!r}: give TENANT=FACTOR with a factor from 0 to {_LARGEST_FACTOR}, for instance acme=2"
        )
    return name, factor


def _super_cluster(text: str) -> SuperState:
    """Parse `r9=cpu=64,memory=256Gi,price.cpu=0.04,label.zone=a`.

    Raises:
        WrongInputError: the text is malformed.
    """
    name, _, rest = text.partition("=")
    if not is_dns_label(name) or not rest:
        raise WrongInputError(
            f"--add-super {text!r}: give NAME=RESOURCE=AMOUNT,..., for instance r9=cpu=64,memory=256Gi"
        )
    amounts, prices, labels = [], {}, {}
    for part in rest.split(","):
        key, _, value = part.partition("=")
        if key.startswith(_LABEL):
            labels[key.removeprefix(_LABEL)] = value
        elif key.startswith(_PRICE):
            prices[_priced(text, key)] = _price(text, value)
        else:
            amounts.append(part)
    option = f"--add-super {name}"
    allocatable = parse_amounts(option, amounts, known=(*DIMENSIONS, PODS))
    if not set(DIMENSIONS) <= allocatable.keys() or not all(from_quantities(allocatable).values()):
        raise WrongInputError(f"{option} needs both cpu and memory, for instance {name}=cpu=64,memory=256Gi")
    return SuperState(id=name, allocatable=allocatable, prices=prices, labels=labels)


def _priced(text: str, key: str) -> str:
    resource = key.removeprefix(_PRICE)
    if resource not in DIMENSIONS:
        raise WrongInputError(f"--add-super {text!r}: {key}: prices are of {' and '.join(DIMENSIONS)}")
    return resource


def _price(text: str, value: str) -> str:
    try:
        millionths(value)
    except ValueError as error:
        raise WrongInputError(f"--add-super {text!r}: {error}") from error
    return value
