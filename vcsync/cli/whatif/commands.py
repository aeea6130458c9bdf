"""`vcsync what-if`: what the namespace scheduler would do if the pool, the tenants or the settings changed."""

import asyncio
from fractions import Fraction
from pathlib import Path

import click

from vcsync.api.fields import PercentOrQuantity
from vcsync.api.names import is_dns_label
from vcsync.api.specs import FailBack
from vcsync.cli.command.common import meta_option, note, output_option, parse_amounts
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document, print_names
from vcsync.cli.command.terminal import say
from vcsync.cli.whatif.failover import (
    default_fail_back_option,
    default_failover_option,
    failover_question,
    parse_default,
    policies,
    present_failover,
)
from vcsync.cli.whatif.reading import Options, default_slice_option, policy_choice, read_file, slice_of, take
from vcsync.cli.whatif.rendering import advice_text, answer_plain, answer_text
from vcsync.objects.quantity import milli
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.whatif.advice import Advice, headroom_advice
from vcsync.whatif.answer import Answer, answer
from vcsync.whatif.edits import Edits, InvalidEdit, edited
from vcsync.whatif.snapshot import (
    WITHOUT_FAILOVER,
    InvalidSnapshot,
    Snapshot,
    SuperState,
    as_plain,
    millionths,
)

_LARGEST_FACTOR = 1000
_PRICE = "price."
_LABEL = "label."


@click.command(
    name="what-if",
    epilog=example(
        "vcsync what-if --lose r2 --failover MoveAfter",
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
    "--lose",
    multiple=True,
    metavar="ID",
    help="This super cluster is lost; may be repeated for those that vanish together.",
)
@click.option(
    "--fence",
    multiple=True,
    metavar="ID",
    help="This super cluster is lost, and an operator has fenced it; may be repeated.",
)
@click.option(
    "--remove", multiple=True, metavar="ID", help="Take this super cluster out of the pool; may be repeated."
)
@failover_question
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
@default_failover_option
@default_fail_back_option
@click.option(
    "--pods",
    is_flag=True,
    help="Also count the Pods on lost super clusters, in the control planes of the tenants.",
)
@output_option
@meta_option
def what_if(  # noqa: PLR0917  one command's options
    file: Path | None,
    lose: tuple[str, ...],
    fence: tuple[str, ...],
    remove: tuple[str, ...],
    failover: tuple[str, ...],
    add_super: tuple[str, ...],
    scale_tenant: tuple[str, ...],
    slice_size: tuple[str, ...],
    headroom: tuple[str, ...],
    policy: str | None,
    advise_headroom: bool,
    default_slice: tuple[str, ...],
    default_failover: str | None,
    default_fail_back: FailBack,
    pods: bool,
    form: str,
    meta: str | None,
) -> None:
    """Show which slices would move or wait, and use and price per super cluster, if something changed.

    Without changes it shows what the namespace scheduler still has to do. Nothing is written to any cluster. Placed
    slices stay where they are as long as their super cluster exists, and leave a lost one as the tenants' failover policies say:
    another --policy or a larger headroom concerns new slices.
    """
    wanted = policies(failover)
    edits = Edits(
        lose=lose,
        fence=fence,
        remove=remove,
        add=tuple(map(_super_cluster, add_super)),
        scale=dict(map(_factor, scale_tenant)),
        slice_size=slice_of("--slice-size", slice_size) if slice_size else {},
        headroom=_headroom("--headroom", headroom),
        policy=policy or "",
        default_failover=parse_default(default_failover),
        failover=wanted.every,
        failovers=wanted.single,
    )
    if file is not None:
        snapshot = _read(file, pods)
    else:
        options = Options(
            policy or "spread",
            slice_of("--default-slice", default_slice),
            present_failover(default_failover),
            default_fail_back,
        )
        snapshot = asyncio.run(take(meta, options, pods=pods, gone=edits.gone))
    try:
        if advise_headroom:
            _tell_advice(headroom_advice(edited(snapshot, edits), edits.gone), form)
        else:
            _tell_answer(answer(snapshot, edits), form)
    except (InvalidEdit, InvalidSnapshot) as error:
        raise WrongInputError(str(error)) from error


def _tell_answer(found: Answer, form: str) -> None:
    if form in ("table", "wide"):
        say(answer_text(found))
    elif form == "name":
        print_names(f"namespace/{each.tenant}/{each.namespace}" for each in found.namespaces)
    else:
        say(document(answer_plain(found), form))


def _tell_advice(found: Advice, form: str) -> None:
    if form in ("table", "wide"):
        say(advice_text(found))
    elif form == "name":
        print_names(f"supercluster/{each.super_cluster}" for each in found.losses)
    else:
        say(document(as_plain(found), form))


def _read(file: Path, pods: bool) -> Snapshot:
    if pods:
        raise WrongInputError(
            "--pods: a file has the Pods that 'vcsync snapshot save --pods' counted; remove --pods"
        )
    snapshot = read_file(file)
    if snapshot.version == WITHOUT_FAILOVER:
        note(
            f"{file}: version {WITHOUT_FAILOVER} has no failover policies, so that Stay and Never are assumed for all tenants; "
            "give --failover or --default-failover, or save the snapshot again"
        )
    return snapshot


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
