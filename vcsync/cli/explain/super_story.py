"""Explains a super cluster in words and as a table of its tenants. Pure."""

from collections.abc import Mapping

from vcsync.cli.command.output import table
from vcsync.objects.readable_amounts import readable
from vcsync.tenancy.health import Judgement, lasting
from vcsync.whatif.super_cluster import SuperExplanation

_HEADER = ("TENANT", "NAMESPACES", "SLICES", "CPU", "MEMORY", "PODS", "STILL CLEARED")
_SHOWN = ("cpu", "memory", "pods")


def super_story(found: SuperExplanation, judgement: Judgement) -> list[str]:
    """Explain a super cluster: health, capacity, room for new slices, and what is placed by tenant.

    Args:
        found: the facts.
        judgement: its health.
    """
    settings = found.settings
    story = [f"Super cluster {settings.id} is {judgement.word.lower()}{_since(judgement)}."]
    story.append(f"Its ready nodes have {_amounts(settings.allocatable)}.")
    if settings.headroom:
        story.append(f"Not distributed as slices (headroom): {_plain(settings.headroom)}.")
    if settings.overcommit:
        story.append(f"Distributed share of the rest (overcommit): {_plain(settings.overcommit)}.")
    if found.capacity:
        story.append(f"Slices may have {_amounts(found.capacity)}; they hold {_amounts(found.placed)}.")
    new = found.new_slices
    if not new.obstacles:
        story.append(f"It has room for {new.fit} more slices of {_amounts(new.size)}.")
    else:
        story.append(f"It gets no new slices of {_amounts(new.size)}.")
        story += [f"{each.filter}: {each.message}. Remedy: {each.remedy}." for each in new.obstacles]
    if not found.tenants:
        return [*story, "No tenant has slices there."]
    rows = [
        (
            each.tenant,
            str(each.namespaces),
            str(each.slices),
            *(readable(each.amounts[name], name) if name in each.amounts else "" for name in _SHOWN),
            _amounts(each.clearing) if each.clearing else "",
        )
        for each in found.tenants
    ]
    return [*story, *table(_HEADER, rows).splitlines()]


def _since(judgement: Judgement) -> str:
    lasts = "" if judgement.lasts is None else f" for {lasting(judgement.lasts)}"
    return f"{lasts} ({judgement.reason})" if judgement.reason else lasts


def _amounts(values: Mapping[str, str]) -> str:
    return (
        ", ".join(f"{readable(values[name], name)} {name}" for name in _SHOWN if name in values) or "nothing"
    )


def _plain(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {values[name]}" for name in sorted(values))
