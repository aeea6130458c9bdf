"""`python -m hack.node`: the namespaces of one node, as long as this process runs.

The process forks the first process of the node's own process id, mount and network namespaces. When it ends, however it
ends, the kernel kills that one and with it kubelet, containerd and all containers. Their mounts and links end with the
namespaces. Until then this process forwards connections that arrive in the node to API servers on the machine.
"""

import argparse
import ipaddress
import socket
from pathlib import Path

from hack.node import inside, outside
from hack.node.namespaces import fork_inside
from hack.node.plan import NodePlan


def main() -> None:
    """Create the namespaces, write the process id of their first process, and forward connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("service_address")
    parser.add_argument("advertised_address")
    parser.add_argument(
        "--tenant",
        dest="tenants",
        action="append",
        default=[],
        type=tenant,
        metavar="ADDRESS=PORT",
        help="Serve this port of the machine at this address of the node, and port 443: a tenant's API server, for instance.",
    )
    options = vars(parser.parse_args())
    plan = NodePlan(**options | {"tenants": tuple(options["tenants"])})
    ours, theirs = socket.socketpair()
    pid = fork_inside()
    if pid == 0:
        ours.close()
        inside.run(plan, theirs)
    theirs.close()
    with ours:
        outside.run(plan, ours, pid)


def tenant(text: str) -> tuple[str, int]:
    """Parse the address and the port of a tenant's API server.

    Raises:
        ValueError: it is not an address, `=` and a port.
    """
    address, _, port = text.partition("=")
    return str(ipaddress.IPv4Address(address)), int(port)


if __name__ == "__main__":
    main()
