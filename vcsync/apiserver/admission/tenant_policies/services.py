"""Rules of a TenantPolicy for Services. Pure."""

from collections.abc import Iterator

from vcsync.api.policy_specs import PolicyServices
from vcsync.apimachinery.strategy import Object


def violations(policy: PolicyServices, new: Object, old: Object | None) -> Iterator[str]:
    """Yield what is not allowed of a Service. What the stored Service has already is not checked again.

    Args:
        policy: What is allowed.
        new: The Service as it would be stored.
        old: The stored Service. None: it is created.
    """
    spec: Object = new.get("spec") or {}
    before: Object = (old or {}).get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    if policy.types and kind not in policy.types and kind != before.get("type"):
        yield f"allows Services of type {', '.join(policy.types)} only"
    if policy.external_ips == "Refuse" and set(spec.get("externalIPs") or ()) - set(
        before.get("externalIPs") or ()
    ):
        yield "allows no spec.externalIPs"
    address = spec.get("loadBalancerIP")
    if policy.load_balancer_ip == "Refuse" and address and address != before.get("loadBalancerIP"):
        yield "allows no spec.loadBalancerIP"
    if policy.node_ports == "Refuse" and _node_ports(spec) - _node_ports(before):
        remedy = ": set spec.allocateLoadBalancerNodePorts to false" if kind == "LoadBalancer" else ""
        yield f"allows no node ports{remedy}"


def _node_ports(spec: Object) -> set[int]:
    found = {each.get("nodePort") or 0 for each in spec.get("ports") or ()}
    return (found | {spec.get("healthCheckNodePort") or 0}) - {0}
