"""Command line of the audit."""

import sys
from pathlib import Path

import click

from hack.audit.findings import as_json, table
from hack.audit.read import ReadError, read_world
from hack.audit.rules import audit


def _pairs(_: click.Context, option: click.Parameter, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{part!r}: write NAME=VALUE, several separated by commas", param=option)
        pairs[name] = value
    return pairs


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--meta", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--supers", required=True, callback=_pairs, metavar="ID=KUBECONFIG,...", help="Super clusters.")
@click.option("--tenants", required=True, callback=_pairs, metavar="NAME=KUBECONFIG,...", help="Tenants.")
@click.option(
    "--markers",
    default="",
    callback=_pairs,
    metavar="NAME=TEXT,...",
    help="Texts that only objects of this tenant may contain.",
)
@click.option(
    "--no-empty-nodes", is_flag=True, help="Report virtual nodes without Pods, which may linger otherwise."
)
@click.option("--json", "json_", is_flag=True, help="Print the findings as JSON.")
def main(
    *,
    meta: Path,
    supers: dict[str, str],
    tenants: dict[str, str],
    markers: dict[str, str],
    no_empty_nodes: bool,
    json_: bool,
) -> None:
    """Compare every tenant with every super cluster; exit code 1 if anything is missing, doubled, stale or foreign.

    Run it on an idle system: objects that change while they are read may appear as differences.
    """
    try:
        world = read_world(
            meta,
            {name: Path(path) for name, path in supers.items()},
            {name: Path(path) for name, path in tenants.items()},
            markers={name: (text,) for name, text in markers.items()},
            empty_nodes=not no_empty_nodes,
        )
    except (ReadError, OSError) as error:
        raise click.ClickException(str(error)) from error
    findings = audit(world)
    if json_:
        click.echo(as_json(findings))
    elif findings:
        click.echo(table(findings))
    else:
        count = sum(len(list(cluster.everything())) for cluster in world.supers.values())
        click.echo(f"clean: {len(tenants)} tenants, {len(supers)} super clusters, {count} objects in them")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
