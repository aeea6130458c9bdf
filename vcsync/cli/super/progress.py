"""Shows the progress of a drain: sums it over the shards of the syncer, and words it. Pure."""

from collections.abc import Callable, Iterable, Mapping

from vcsync.api.specs import MAX_BLOCKED, DrainCount, DrainProgress


def overall(shards: Mapping[str, DrainProgress]) -> DrainProgress | None:
    """Return the progress of all shards together; None if no syncer has reported any."""
    found = [shards[shard] for shard in sorted(shards)]
    if not found:
        return None
    blocked = sorted(
        (each for one in found for each in one.blocked), key=lambda each: (each.tenant, each.namespace)
    )
    return DrainProgress(
        since=min(each.since for each in found),
        namespaces=_sum(found, lambda each: each.namespaces),
        pods=_sum(found, lambda each: each.pods),
        claims=_sum(found, lambda each: each.claims),
        pods_per_hour=sum(each.pods_per_hour for each in found),
        blocked_namespaces=sum(each.blocked_namespaces for each in found),
        blocked=tuple(blocked[:MAX_BLOCKED]),
    )


def _sum(found: Iterable[DrainProgress], part: Callable[[DrainProgress], DrainCount]) -> DrainCount:
    counts = [part(each) for each in found]
    return DrainCount(total=sum(each.total for each in counts), left=sum(each.left for each in counts))


def contents(progress: DrainProgress) -> str:
    """Return what is still there, as words."""
    counts = (
        (progress.namespaces.left, "namespace", "namespaces"),
        (progress.pods.left, "Pod", "Pods"),
        (progress.claims.left, "claim with a volume", "claims with volumes"),
    )
    return ", ".join(f"{count} {one if count == 1 else several}" for count, one, several in counts)


def progress_line(progress: DrainProgress) -> str:
    """Return one line: what has left, how fast, and how long the rest takes at that rate."""
    gone = ", ".join(
        f"{count.total - count.left} of {count.total} {word}"
        for count, word in ((progress.pods, "Pods"), (progress.namespaces, "namespaces"))
    )
    parts = [f"{gone} have left", f"{_per_minute(progress)} Pods a minute"]
    if (minutes := minutes_left(progress)) is not None:
        parts.append(f"about {minutes} min left")
    if progress.claims.left:
        parts.append(f"claims with volumes that stay: {progress.claims.left}")
    if progress.blocked_namespaces:
        parts.append(f"blocked namespaces: {progress.blocked_namespaces}")
    return "; ".join(parts)


def minutes_left(progress: DrainProgress) -> int | None:
    """Return the minutes until all Pods have left at the present rate, rounded up; None if none leaves at present."""
    if not progress.pods_per_hour or not progress.pods.left:
        return None
    return -(-progress.pods.left * 60 // progress.pods_per_hour)


def _per_minute(progress: DrainProgress) -> str:
    return f"{progress.pods_per_hour / 60:.1f}".removesuffix(".0")


def blocked_lines(progress: DrainProgress) -> list[str]:
    """Return one line for each namespace that cannot move, and one for those that are not named."""
    lines = [f"blocked: {each.tenant}/{each.namespace}: {each.reason}" for each in progress.blocked]
    more = progress.blocked_namespaces - len(progress.blocked)
    return [*lines, f"blocked: {more} more"] if more > 0 else lines
