"""Parts of objects that simulated users write. Pure."""

from typing import Any

Json = dict[str, Any]


def namespace_selectors(namespace: str, team: str) -> tuple[Json, ...]:
    """Return selectors of namespaces: all, those of a team by label, one by its name, and some by an expression."""
    return (
        {},
        {"matchLabels": {"team": team}},
        {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["t1", "t2"]}]},
    )


def rule(host: str, service: str) -> Json:
    """Return the rule of an Ingress that sends all requests for a host to a Service."""
    backend = {"service": {"name": service, "port": {"number": 80}}}
    return {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
