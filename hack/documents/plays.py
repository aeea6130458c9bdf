"""Preparations for each document: existing clusters, and replacements of commands. Data only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

DOCUMENTS = (
    "README.md",
    "docs/charts.md",
    "docs/configuration.md",
    "docs/conformance.md",
    "docs/controlplane.md",
    "docs/first-steps.md",
    "docs/gateway.md",
    "docs/identity.md",
    "docs/metering.md",
    "docs/operating.md",
    "docs/operators.md",
    "docs/performance.md",
    "docs/policies.md",
    "docs/tenants.md",
)

ON_REAL_NODES = ("docs/installing.md",)
"""Documents whose commands tests/real/node executes."""

SERVES = re.compile(r"(make up|vcsync up|vcsync run)\b")
"""Commands that run until Ctrl-C, unless `&` puts them into the background."""

TOO_LONG = (
    (re.compile(r"make (test|bench|conformance\S*|chaos|fuzz|mutants|attacks)\b"), "make --dry-run {rest}"),
    (re.compile(r"python -m hack\.\S+"), "{command} --help"),
)
"""Commands that take many minutes, with commands that check their spelling."""


@dataclass(frozen=True)
class Play:
    """The preparations of a document.

    Attributes:
        clusters: real API servers that the reader has, as NAME.kubeconfig in the folder.
        borrowed: files that the reader has from another document, by name.
        before: start of a command -> commands that a reader has typed elsewhere before it.
        instead: command that cannot work here -> the command that replaces it.
        programs: programs that the reader has besides kubectl.
        sources: those of them whose source the reader has, too, in a folder of the program's name.
    """

    clusters: tuple[str, ...] = ()
    borrowed: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


# There is no network to fetch packages from; tests/real/test_package.py installs the package.
FROM_CHECKOUT = {"pip install .": "make environment && export PATH=$PWD/.venv/bin:$PATH"}

FAST = (
    "kubectl --kubeconfig r1.kubeconfig create -f - <<< '"
    '{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, '
    '"provisioner": "example.com/disks"}'
    "'"
)
"""Makes the class that the operator of r1 has."""
SANDBOXED = FAST.replace(
    '"storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "example.com/disks"',
    '"node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"}, "handler": "runsc"',
)
"""Makes the runtime that the operator of r1 has."""
GPU = FAST.replace(
    '"storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "example.com/disks"',
    '"resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}',
)
"""Makes the devices that the operator of r1 has."""
_CLASS = '"storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "example.com/disks"'
SNAPSHOTTER = FAST.replace(
    _CLASS,
    '"apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", '
    '"metadata": {"name": "volumesnapshotclasses.snapshot.storage.k8s.io", '
    '"annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}}, '
    '"spec": {"group": "snapshot.storage.k8s.io", "scope": "Cluster", '
    '"names": {"plural": "volumesnapshotclasses", "singular": "volumesnapshotclass", "kind": "VolumeSnapshotClass"}, '
    '"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": '
    '{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}',
)
"""Installs the definition of VolumeSnapshotClasses, as the external snapshotter of r1 does."""
SNAPSHOTS_SERVED = (
    "kubectl --kubeconfig r1.kubeconfig wait --for=condition=Established "
    "crd volumesnapshotclasses.snapshot.storage.k8s.io"
)
NIGHTLY = FAST.replace(
    _CLASS,
    '"snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "nightly"}, '
    '"driver": "disks.example.com", "deletionPolicy": "Delete"',
)
"""Makes the class of snapshots that the operator of r1 has."""
FOLLOW = "vcsync drift --follow --super-cluster r1"

PLAYS: Mapping[str, Play] = {
    "README.md": Play(
        clusters=("meta", "r1", "r2", "east", "acme"),
        borrowed={"vcsync.yaml": "docs/configuration.md"},
        instead=FROM_CHECKOUT,
        before={"vcsync install": ("rm -rf vcsync-data",)},
    ),
    "docs/charts.md": Play(
        programs=("helm",),
        # A reader waits until `vcsync up` says that it is ready.
        before={"helm create": ("until kubectl get serviceaccount default; do sleep 0.5; done",)},
    ),
    "docs/first-steps.md": Play(
        instead=FROM_CHECKOUT,
        # A reader waits until `vcsync up` says that it is ready.
        before={
            "kubectl create deployment": ("until kubectl get serviceaccount default; do sleep 0.5; done",)
        },
    ),
    "docs/configuration.md": Play(clusters=("east",)),
    "docs/gateway.md": Play(clusters=("umbrella",)),
    "docs/tenants.md": Play(
        clusters=("umbrella",),
        before={
            # The control plane answers before `vcsync up` has installed the CRDs.
            "kubectl apply -f acme.yaml": ("until kubectl get tenants; do sleep 0.5; done",),
            "kubectl patch tenant": (
                "vcsync tenant create acme",
                "vcsync tenant kubeconfig acme > acme.kubeconfig",
                "vcsync tenant add acme --kubeconfig acme.kubeconfig",
            ),
        },
    ),
    "docs/operators.md": Play(
        programs=("jobset",),
        sources=("jobset",),
        instead={
            "pip install . kopf": FROM_CHECKOUT["pip install ."],
            # There is no network to fetch these from. The test bed has built the program from this version's module.
            "go install sigs.k8s.io/jobset@v0.11.1": "command -v jobset",
            "git clone --branch v0.11.1 https://github.com/kubernetes-sigs/jobset": "ls jobset/config/default",
        },
        # A reader waits until `vcsync up` says that it is ready.
        before={
            "kubectl apply -f definition": ("until kubectl get serviceaccount default; do sleep 0.5; done",)
        },
    ),
    "docs/operating.md": Play(
        clusters=("meta", "r1", "acme", "east", "west"),
        # It follows until Ctrl-C.
        instead={FOLLOW: f"timeout 3 {FOLLOW} || test $? = 124"},
        before={
            "kubectl --kubeconfig r1.kubeconfig label storageclass": (FAST,),
            "kubectl --kubeconfig r1.kubeconfig label runtimeclass": (SANDBOXED,),
            "kubectl --kubeconfig r1.kubeconfig label deviceclass": (GPU,),
            "kubectl --kubeconfig r1.kubeconfig label volumesnapshotclass": (
                SNAPSHOTTER,
                SNAPSHOTS_SERVED,
                NIGHTLY,
            ),
            "vcsync super list": ("vcsync run all --kubeconfigs ./roles &",),
            "vcsync run all": (
                "kill %1; wait %1 || true",
                "vcsync super add r1 --kubeconfig r1.kubeconfig",
                "vcsync tenant add acme --kubeconfig acme.kubeconfig",
            ),
            "vcsync status --endpoint": (
                "vcsync run all --kubeconfigs ./roles &",
                "kubectl --kubeconfig acme.kubeconfig run web-0 --image=nginx",
            ),
        },
    ),
}


def play_of(document: str) -> Play:
    """Return the preparations of a document."""
    return PLAYS.get(document, Play())


def typed(command: str, play: Play) -> str:
    """Return the command that replaces a command of a document."""
    if command in play.instead:
        return play.instead[command]
    for pattern, instead in TOO_LONG:
        if pattern.match(command):
            return instead.format(command=command, rest=command.partition(" ")[2])
    return command


def earlier(command: str, play: Play) -> tuple[str, ...]:
    """Return the commands that a reader has executed elsewhere before this one."""
    return next((commands for start, commands in play.before.items() if command.startswith(start)), ())
