"""What tells that parts of a test bed work: asked again and again while it starts."""

import socket

from hack.testbed.cluster import Cluster


def controllers_work(cluster: Cluster) -> bool:
    """Whether the controller manager has made what every namespace needs before Pods can be made in it."""
    needed = (
        "/api/v1/namespaces/default/serviceaccounts/default",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
    )
    with cluster.session() as session:
        return all(session.call("GET", path)[0] == 200 for path in needed)


def is_served(port: int) -> bool:
    """Whether something accepts connections at a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def nodes_ready(cluster: Cluster) -> bool:
    """Whether all its nodes are there, Ready and free of taints."""
    _, listing = cluster.call("GET", "/api/v1/nodes")
    ready = [
        node
        for node in listing["items"]
        if not node["spec"].get("taints")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    ]
    return len(ready) >= cluster.plan.nodes
