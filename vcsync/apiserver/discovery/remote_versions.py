"""The versions of groups that aggregated API servers serve, and their place among the versions of this server. Pure.

Source: kube-aggregator's `pkg/apis/apiregistration/v1/helper/helpers.go` (`SortedByGroupAndVersion`), and apiserver's
`pkg/endpoints/discovery/aggregated/handler.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from vcsync.apimachinery.crd.columns import priority
from vcsync.apiserver.tenants.api_service_priorities import group_priority, version_priority

_Resources = TypeVar("_Resources")


@dataclass(frozen=True, slots=True)
class RemoteVersion:
    """A version of a group that an aggregated API server serves.

    Attributes:
        group: The group.
        version: The version.
        group_priority: `groupPriorityMinimum` of its APIService.
        version_priority: `versionPriority` of its APIService.
        resources: Its resources, as JSON in the form of aggregated discovery documents.
        current: Whether the resources were read by the last check of the server.
    """

    group: str
    version: str
    group_priority: int
    version_priority: int
    resources: bytes = b"[]"
    current: bool = False


def merged(
    local: Mapping[str, Mapping[str, _Resources]], remote: Sequence[RemoteVersion]
) -> dict[str, dict[str, _Resources | RemoteVersion]]:
    """Return the groups of this server together with those of aggregated API servers, in upstream's order.

    Args:
        local: Group -> version -> resources, of this server, in order.
        remote: Versions that this server does not serve itself.
    """
    groups: dict[str, dict[str, _Resources | RemoteVersion]] = {
        name: dict(versions) for name, versions in local.items()
    }
    ranks = {name: group_priority(name) for name in groups}
    for each in remote:
        groups.setdefault(each.group, {})[each.version] = each
        ranks[each.group] = max(each.group_priority, ranks.get(each.group, 0))
    for name in {each.group for each in remote}:
        groups[name] = dict(sorted(groups[name].items(), key=partial(_version_rank, name), reverse=True))
    # The core group has a path of its own.
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name != "", -ranks[name], name))}


def _version_rank(group: str, item: tuple[str, object]) -> tuple[int, tuple[int, int, int, tuple[int, ...]]]:
    version, found = item
    own = found.version_priority if isinstance(found, RemoteVersion) else version_priority(group, version)
    return own, priority(version)
