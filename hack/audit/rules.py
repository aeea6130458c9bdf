"""All rules in one table, and the audit that applies them."""

from collections.abc import Callable, Iterator

from hack.audit import (
    claims,
    cluster_ips,
    definitions,
    endpoints,
    hosts,
    isolation,
    ledger,
    nodes_and_tokens,
    objects,
    pods,
    snapshots,
)
from hack.audit.findings import Finding
from hack.audit.world import World

Rule = Callable[[World], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    ledger.ledger_lines,
    ledger.ledger_quotas,
    ledger.mirrors,
    ledger.super_namespaces,
    ledger.super_quotas,
    objects.contents,
    objects.peers,
    objects.strays,
    objects.doubles,
    objects.service_addresses,
    cluster_ips.kept_addresses,
    cluster_ips.shared_addresses,
    endpoints.remote_endpoints,
    hosts.hosts,
    claims.claims,
    claims.device_claims,
    snapshots.snapshots,
    definitions.published_definitions,
    pods.pods,
    pods.pod_copies,
    nodes_and_tokens.virtual_nodes,
    nodes_and_tokens.token_secrets,
    isolation.visible,
    isolation.revealed,
    isolation.claimed,
)
"""Each rule checks the whole world and yields its violations; its docstring states what must hold."""


def audit(world: World) -> list[Finding]:
    """Apply every rule; there are no findings if every tenant and super cluster agree."""
    return [finding for rule in RULES for finding in rule(world)]
