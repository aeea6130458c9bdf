"""The operators whose suites are run, as data: Go modules with their versions, and the packages with tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Manifests:
    """Definitions that a suite reads and that its own build copies from other modules.

    Attributes:
        module: Go module that contains them, in the version of the operator's go.mod.
        files: glob pattern in that module.
        without: name of a file that is left out.
    """

    module: str
    files: str
    without: str = ""


@dataclass(frozen=True)
class Operator:
    """An operator, or a library for operators.

    Attributes:
        name: Name in tables and of its folder in the cache.
        module: Its Go module.
        version: Version of the module.
        packages: Packages whose tests run, below the module.
        short: Those of the short form.
        copied: Folder below the module -> manifests that are copied there before the tests run.
        kustomized: File below the module -> kustomization whose objects it gets.
        tags: Build tags of its tests, separated by commas.
    """

    name: str
    module: str
    version: str
    packages: tuple[str, ...]
    short: tuple[str, ...] = ()
    copied: Mapping[str, Manifests] = field(default_factory=dict)
    kustomized: Mapping[str, str] = field(default_factory=dict)
    tags: str = ""


_CONTROLLER_RUNTIME = (
    "client", "cache", "client/apiutil", "manager", "builder", "controller", "webhook", "source", "handler",
    "internal/controller", "internal/recorder", "reconcile", "cluster", "envtest",
)  # fmt: skip
_KUEUE = ("webhook/core", "webhook/jobs", "conversion", "controller/core")

OPERATORS = (
    Operator(
        "controller-runtime",
        "sigs.k8s.io/controller-runtime",
        "v0.25.2",
        tuple(f"pkg/{each}" for each in _CONTROLLER_RUNTIME),
        short=("pkg/client", "pkg/webhook"),
    ),
    Operator(
        "karpenter",
        "sigs.k8s.io/karpenter",
        "v1.14.0",
        (
            "pkg/apis/v1", "pkg/apis/v1alpha1", "pkg/controllers/state", "pkg/controllers/nodeclaim/lifecycle",
            "pkg/controllers/node/termination",
        ),
        short=("pkg/apis/v1", "pkg/apis/v1alpha1"),
    ),
    Operator(
        "kueue",
        "sigs.k8s.io/kueue",
        "v0.17.0",
        tuple(f"test/integration/singlecluster/{each}" for each in _KUEUE),
        copied={
            "dep-crds/mpi-operator": Manifests("github.com/kubeflow/mpi-operator", "manifests/base/*"),
            "dep-crds/training-operator-crds": Manifests(
                "github.com/kubeflow/training-operator", "manifests/base/crds/*", without="kubeflow.org_mpijobs.yaml",
            ),
            "dep-crds/kf-trainer-crds": Manifests("github.com/kubeflow/trainer/v2", "manifests/base/crds/*"),
            "dep-crds/ray-operator-crds": Manifests("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/*"),
            "dep-crds/jobset-operator": Manifests("sigs.k8s.io/jobset", "config/components/crd/bases/*"),
            "dep-crds/appwrapper-crds": Manifests("github.com/project-codeflare/appwrapper", "config/crd/bases/*"),
        },
        kustomized={"config/components/crd/_output/crds-with-webhooks.yaml": "config/components/crd"},
    ),
)  # fmt: skip
