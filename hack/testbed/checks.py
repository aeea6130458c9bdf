"""Checks whether parts of a test bed work; they are repeated while it starts."""

import socket

from hack.testbed.cluster import Cluster


def controllers_work(cluster: Cluster) -> bool:
    """Return whether the controller manager has created the objects that a namespace needs before it can have Pods."""
    needed = (
        "/api/v1/namespaces/default/serviceaccounts/default",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
    )
    with cluster.session() as session:
        return all(session.call("GET", path)[0] == 200 for path in needed)


def is_served(port: int) -> bool:
    """Return whether a port of this machine accepts connections."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def nodes_ready(cluster: Cluster) -> bool:
    """Return whether all nodes of a cluster exist, are Ready and have no taints."""
    _, listing = cluster.call("GET", "/api/v1/nodes")
    ready = [
        node
        for node in listing["items"]
        if not node["spec"].get("taints")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    ]
    return len(ready) >= cluster.plan.nodes
