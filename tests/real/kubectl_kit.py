"""kubectl as a tenant's administrator, and a server of the test behind one of the tenant's Services."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from hack.testbed import ensure


class Kubectl:
    """kubectl as a tenant's administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self.command = [str(ensure(["kubectl"])["kubectl"]), "--kubeconfig", str(kubeconfig)]

    def run(self, *arguments: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl; `given` is passed as a manifest with `-f -`."""
        manifest = None if given is None else yaml.safe_dump(given)
        return subprocess.run(
            [*self.command, *arguments, *(() if given is None else ("-f", "-"))],
            input=manifest, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def __call__(self, *arguments: str, given: Any = None) -> str:
        """Run kubectl, which must succeed."""
        run = self.run(*arguments, given=given)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def refused(self, *arguments: str, given: Any = None) -> str:
        """Run kubectl, which must fail; return its error output."""
        run = self.run(*arguments, given=given)
        assert run.returncode != 0, run.stdout
        return run.stderr

    def json(self, *arguments: str) -> Any:
        """Run kubectl, and return its decoded output."""
        return json.loads(self(*arguments, "-o", "json"))


def behind_a_service(
    kubectl: Kubectl, namespace: str, name: str, address: str, port: int, pod_address: str = ""
) -> None:
    """Put a server behind a Service with port 443, like a Pod of a Deployment.

    Args:
        kubectl: The tenant.
        namespace: Namespace, which is created.
        name: Name of the Service and its Pod.
        address: Address of the server, in the EndpointSlice.
        port: Port on which it listens.
        pod_address: Address of the Pod; empty: that of the server.
    """
    kubectl("create", "namespace", namespace)
    kubectl("create", "serviceaccount", "default", "-n", namespace)
    metadata = {"name": name, "namespace": namespace}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    kubectl("create", given={"apiVersion": "v1", "kind": "Pod", **pod})
    own = pod_address or address
    status = json.dumps({"status": {"phase": "Running", "podIP": own, "podIPs": [{"ip": own}]}})
    kubectl("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    service = {"metadata": metadata, "spec": {"ports": [{"port": 443}]}}
    kubectl("create", given={"apiVersion": "v1", "kind": "Service", **service})
    kubectl(
        "create",
        given={
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{name}-1", "namespace": namespace, "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "", "port": port}],
            "endpoints": [
                {"addresses": [address], "targetRef": {"kind": "Pod", "namespace": namespace, "name": name}}
            ],
        },
    )  # fmt: skip
