"""Command lines and configuration files of a node's programs, as pure functions of its plan."""

import json
from pathlib import Path

from hack.node.images import PAUSE
from hack.node.plan import KUBELET_PORT, NodePlan

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
RUNC = Path(__file__).parent / "runc.sh"
PODS = 110
"""Pods that the node takes; its range has 128 addresses."""


def entered(plan: NodePlan, pid: int, command: list[str]) -> list[str]:
    """Return the command that runs another one with the mounts and the network of the node.

    Args:
        plan: of the node.
        pid: of the node's first process.
        command: the program and its arguments.
    """
    spaces = f"/proc/{pid}/ns"
    return ["nsenter", f"--mount={spaces}/mnt", f"--net={spaces}/net", f"--wd={plan.folder}", *command]


def containerd(plan: NodePlan, program: Path, runc: Path) -> list[str]:
    """Return the command of containerd, which finds its shim and runc on its PATH."""
    path = f"PATH={program.parent}:{runc.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ["env", path, str(program), f"--config={plan.folder}/containerd.toml"]


def kubelet(plan: NodePlan, program: Path) -> list[str]:
    """Return the command of kubelet."""
    return [
        str(program),
        f"--config={plan.folder}/kubelet.json",
        f"--kubeconfig={plan.folder}/kubelet.kubeconfig",
        f"--hostname-override={plan.name}",
        f"--node-ip={plan.address}",
    ]


def importing(program: Path, images: Path) -> list[str]:
    """Return the command that imports a file of images into containerd."""
    address = ("--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")
    # `--local` imports in this process. The transfer service would import only images of its own platforms' list.
    return [str(program), *address, "images", "import", "--local", str(images)]


def files(plan: NodePlan, plugins: Path) -> dict[str, str]:
    """Return name -> text of the files that the node's programs read, without credentials.

    Args:
        plan: of the node.
        plugins: folder of the CNI plug-ins.
    """
    return {
        "containerd.toml": containerd_configuration(plan, plugins),
        "kubelet.json": kubelet_configuration(plan),
        "cni/10-bridge.conflist": network_configuration(plan),
    }


def containerd_configuration(plan: NodePlan, plugins: Path) -> str:
    """Return the configuration of containerd (TOML).

    Args:
        plan: of the node.
        plugins: folder of the CNI plug-ins.
    """
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""version = 3

[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE}'

[{runtime}]
# A machine may lack CAP_SYS_RESOURCE, without which no process can be protected from a lack of memory.
restrict_oom_score_adj = true

[{runtime}.cni]
bin_dirs = ['{plugins}']
conf_dir = '{plan.folder}/cni'

[{runtime}.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[{runtime}.containerd.runtimes.runc.options]
BinaryName = '{RUNC}'
SystemdCgroup = false
"""


def network_configuration(plan: NodePlan) -> str:
    """Return the CNI network of the node's Pods: a bridge, without a way beyond the machine."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": plan.pod_cidr}]]},
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}, indent=1)


def kubelet_configuration(plan: NodePlan) -> str:
    """KubeletConfiguration (kubelet.config.k8s.io/v1beta1), JSON."""
    folder = plan.folder
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": plan.address,
            "port": KUBELET_PORT,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{folder}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{folder}/kubelet.crt",
            "tlsPrivateKeyFile": f"{folder}/kubelet.key",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "maxPods": PODS,
            # The machine may have control groups of version 1, and other programs that need its memory.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{plan.cgroup}",
            "failSwapOn": False,
            "evictionHard": {"memory.available": "1%", "nodefs.available": "1%", "imagefs.available": "1%"},
            # Images are imported once, and cannot be pulled again.
            "imageGCHighThresholdPercent": 100,
            # Without iptables, and without the machine's name servers.
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "registerNode": True,
            "nodeStatusUpdateFrequency": "5s",
            "syncFrequency": "10s",
            "logging": {"verbosity": 2},
        },
        indent=1,
    )
