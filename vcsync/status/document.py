"""The document at `/status`, as types. Its published schema is generated from them. Pure.

Within a version, fields are only added, and none changes its type or its meaning. `Any` is for people, and may change.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from vcsync.api.names import STATUS_API_VERSION, STATUS_KIND

Count = Annotated[int, Meta(ge=0)]


def _constant(value: str) -> Meta:
    return Meta(extra_json_schema={"const": value})


class Failure(Struct, rename="camel"):
    """An item that failed and has not succeeded since."""

    time: Annotated[str, Meta(description="Time of the last failure, RFC 3339.")]
    tenant: Annotated[str, Meta(description="Cluster key of the tenant; empty: none.")]
    item: Annotated[str, Meta(description="Its parts, joined by slashes.")]
    error: str
    attempts: Annotated[int, Meta(ge=0, description="Failures in a row.")]
    reconcile: Annotated[str, Meta(description="Id of the reconcile, as in log lines.")]


class Waiting(Struct, rename="camel"):
    """A namespace whose slices wait, or that is drained."""

    tenant: Annotated[str, Meta(description="Cluster key.")]
    namespace: str
    reason: str


class SuperClusterState(Struct, rename="camel", omit_defaults=True):
    """A super cluster, as a scheduler sees it."""

    health: Annotated[str, Meta(description="Ready, Suspect, Lost, Recovering or Unknown.")] | UnsetType = (
        UNSET
    )
    reason: str | UnsetType = UNSET
    since: Annotated[str, Meta(description="RFC 3339.")] | UnsetType = UNSET
    silent_seconds: float | UnsetType | None = UNSET
    cordoned: bool | UnsetType = UNSET
    draining: bool | UnsetType = UNSET
    capacity: dict[str, str] | UnsetType = UNSET
    dealt: Annotated[dict[str, str], Meta(description="Amounts in slices.")] | UnsetType = UNSET
    free: Annotated[dict[str, str], Meta(description="Amounts for further slices.")] | UnsetType = UNSET
    problem: Annotated[str, Meta(description="Reason why its object cannot be used.")] | UnsetType = UNSET


class RoleState(Struct, rename="camel", omit_defaults=True):
    """A role. Fields that it does not have are absent; a replica that stands by has few."""

    ready: Annotated[bool, Meta(description="Whether it does its work, or stands by.")]
    reason: Annotated[
        str, Meta(description="Reason why it is not ready, or only partly; else a remark, or empty.")
    ]
    role: str | UnsetType = UNSET
    identity: Annotated[str, Meta(description="Name in the Lease.")] | UnsetType = UNSET
    leader: bool | UnsetType = UNSET
    restarts: (
        Annotated[int, Meta(ge=0, description="Restarts after failures, in a process of several roles.")]
        | UnsetType
    ) = UNSET
    last_failure: Annotated[str | None, Meta(description="Reason of the last restart.")] | UnsetType = UNSET
    super_cluster: Annotated[str, Meta(description="Id, of a syncer.")] | UnsetType = UNSET
    shard: Annotated[str, Meta(description="I/N, of a syncer.")] | UnsetType = UNSET
    super_clusters: (
        Annotated[
            dict[str, SuperClusterState] | list[str],
            Meta(description="By id; of role `pool`: the ids that have a syncer in the process."),
        ]
        | UnsetType
    ) = UNSET
    tenants: (
        Annotated[
            dict[str, dict[str, Any]] | list[dict[str, Any]],
            Meta(description="Of schedulers: by cluster key. Of syncers: a list, with `key`."),
        ]
        | UnsetType
    ) = UNSET
    phases: Annotated[dict[str, Count], Meta(description="Tenants by phase.")] | UnsetType = UNSET
    placements: Annotated[int, Meta(ge=0, description="NamespacePlacements.")] | UnsetType = UNSET
    waiting: (
        Annotated[
            list[Waiting] | int,
            Meta(description="Namespaces whose slices wait, the first hundred; of hollow clusters: Pods."),
        ]
        | UnsetType
    ) = UNSET
    drains: Annotated[list[Waiting], Meta(description="Namespaces that are drained.")] | UnsetType = UNSET
    last_errors: Annotated[list[Failure], Meta(description="The newest first.")] | UnsetType = UNSET
    braked: (
        Annotated[list[dict[str, Any]], Meta(description="Deletions that wait for an operator.")] | UnsetType
    ) = UNSET


class ProcessStatus(Struct, rename="camel"):
    """State of all roles of a process."""

    api_version: Annotated[str, _constant(STATUS_API_VERSION)]
    kind: Annotated[str, _constant(STATUS_KIND)]
    version: Annotated[str, Meta(description="Version of vcsync.")]
    started_at: Annotated[str, Meta(description="Start of the process, RFC 3339.")]
    uptime_seconds: Count
    roles: Annotated[dict[str, RoleState], Meta(description="By name, such as `nsscheduler` or `syncer/r1`.")]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://{STATUS_API_VERSION}/{STATUS_KIND}.json",
        **msgspec.json.schema(ProcessStatus),
    }


def schema_text() -> str:
    """Return the schema as a file."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
