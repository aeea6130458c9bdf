"""The suites of tests, as data: what each one runs, and which command runs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hack.suites.census import MOST
from hack.testbed.binaries import NODE

Tier = Literal["test", "gate", "verify"]
"""Command that runs a suite: `make test` and CI, CI alone, or `make verify`. Each runs those before it, too."""

CORE = "core"
"""Marker of the tests that `make test` runs on real API servers."""
CORE_TESTS = ("-m", CORE)
OTHER_TESTS = ("-m", f"not {CORE}")
POOL = "tests/real/pool"
POOL_PROGRAMS = ("helm", "coredns")
EMBEDDED = {"VCSYNC_TENANTS": "embedded"}
HOLLOW = {"VCSYNC_TENANTS": "embedded", "VCSYNC_SUPERS": "hollow"}
MIXED = {"VCSYNC_SUPERS": "hollow"}


@dataclass(frozen=True)
class Suite:
    """One run of tests.

    Attributes:
        name: Name in `make verify` and in tables.
        purpose: What it shows, in a few words.
        tier: Command that runs it.
        paths: Files or folders of tests; empty: `command` is no pytest.
        arguments: Further arguments of pytest.
        environment: Environment variables of the run.
        command: Module and arguments of a program that is not pytest.
        programs: Binaries that it needs besides the servers of the test bed.
        real: Whether it runs real servers. Then a failed test gets a second chance, alone.
        servers: kube-apiservers that it may run at the same time.
    """

    name: str
    purpose: str
    tier: Tier
    paths: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    real: bool = True
    servers: int = MOST


def _real(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/real/test_{name}.py" for name in names)


def _walk(name: str, purpose: str, tier: Tier, environment: Mapping[str, str]) -> Suite:
    return Suite(name, purpose, tier, (f"{POOL}/test_walkthrough.py",), environment=environment)


SUITES = (
    Suite("unit", "all unit tests", "test", ("tests/unit",), real=False),
    Suite("core", "the promises of README.md, one walk each", "test", ("tests/real",), CORE_TESTS, programs=("helm",)),
    _walk("walk-embedded", "the walk-through with embedded tenants", "gate", EMBEDDED),
    _walk("walk-hollow", "the walk-through without any program of Kubernetes but kubectl", "gate", HOLLOW),
    Suite("parity", "equal answers of kube-apiserver and the embedded one", "gate", command=("hack.parity",)),
    Suite(
        "embedded",
        "embedded control planes",
        "verify",
        _real(
            "aggregated_apis", "archives", "bound_status", "controllers", "controllers_tenants", "controlplane",
            "controlplane_all", "controlplane_audit", "controlplane_bounds", "controlplane_clients", "controlplane_etcd",
            "controlplane_helm", "controlplane_identity", "controlplane_policies", "controlplane_quotas", "controlplane_two",
            "controlplane_webhooks", "etcd_members", "grants", "metering", "networks", "openapi", "permissions",
            "policies", "suspension", "tenant_api", "tenant_quota",
        ),
        OTHER_TESTS,
        programs=("helm",),
    ),
    Suite(
        "up",
        "`vcsync up` and `vcsync demo`",
        "verify",
        _real("demo", "hollow", "metering_pods", "split", "up", "up_classes", "up_metrics", "up_kubelet_api",
              "up_kubelet_metrics", "up_name_server", "up_placed_pods", "up_proxy", "up_real_super", "up_stalls", "up_streams",
              "up_volumes"),
        OTHER_TESTS,
        programs=("helm",),
    ),
    Suite(
        "servers",
        "parts of the system on shared API servers",
        "verify",
        _real(
            "api_crds", "bench_peer", "chart", "gateway", "gateway_all", "gateway_streams", "identity_providers",
            "kube_connection", "kube_reflector", "promises", "recorded", "request_limits", "rolling_restart", "schedulers",
            "testbed",
        ),
        OTHER_TESTS,
        programs=("helm",),
    ),
    Suite(
        "commands",
        "the command line, tenants and restarts",
        "verify",
        _real("cli", "tenants", "tenants_real_meta", "restart", "status_endpoint", "up_real"),
        OTHER_TESTS,
    ),
    Suite(
        "wrong-servers",
        "API servers that hang, were emptied, restored or replaced",
        "verify",
        _real("hanging_tenants", "wrong_servers", "yesterdays_backup"),
        OTHER_TESTS,
    ),
    Suite("failure", "super clusters that fail and return", "verify", _real("failure", "failure_glitches"), OTHER_TESTS),
    Suite("dual-stack", "Services on super clusters of one and of two IP families", "verify", _real("dual_stack"), OTHER_TESTS),
    Suite("failover", "what leaves a super cluster that is lost", "verify", _real("failover"), OTHER_TESTS),
    Suite("pool", "the pool on kube-apiservers", "verify", (POOL,), OTHER_TESTS, programs=POOL_PROGRAMS),
    Suite(
        "pool-embedded", "the pool with embedded tenants", "verify", (POOL,), environment=EMBEDDED, programs=POOL_PROGRAMS,
    ),
    Suite(
        "pool-hollow", "the pool without any program of Kubernetes but kubectl", "verify", (POOL,),
        environment=HOLLOW, programs=POOL_PROGRAMS,
    ),
    Suite(
        "pool-mixed", "the pool with hollow super clusters alone", "verify", (POOL,), environment=MIXED, programs=POOL_PROGRAMS,
    ),
    Suite(
        "rest", "five quiet minutes of a settled pool of three super clusters", "verify", (f"{POOL}/test_rest.py",),
        environment={"VCSYNC_SUPER_CLUSTERS": "3", "VCSYNC_QUIET_SECONDS": "300"},
    ),
    Suite(
        "node", "super clusters with real kubelets, and the chart on a real node", "verify", ("tests/real/node",), OTHER_TESTS,
        programs=(*NODE, "helm", "kubectl-spdy", "metrics-server", "e2e.test"),
    ),
    Suite("attacks", "hostile tenants", "verify", ("tests/real/attacks", *_real("controlplane_fuzz")), OTHER_TESTS),
    Suite(
        "chaos", "five minutes of faults and users of every kind, six tenants on three super clusters", "verify",
        ("tests/chaos/test_chaos.py",), ("-k", "connections and answers"), {"CHAOS_SECONDS": "600"}, servers=10,
    ),
    Suite(
        "chaos-moves", "five minutes of drains, rebalances, losses and fences with the same users", "verify",
        ("tests/chaos/test_chaos.py",), ("-k", "moves and losses and not servers"), {"CHAOS_SECONDS": "600"}, servers=10,
    ),
    Suite(
        "chaos-up", "five minutes of kills of `vcsync up` and users of every kind", "verify",
        ("tests/chaos/test_up_chaos.py",), environment={"CHAOS_SECONDS": "600"},
    ),
    Suite(
        "model", "ten minutes of histories of a pool in memory, in which everything happens in any order", "verify",
        ("tests/unit/model",), environment={"VCSYNC_MODEL_SECONDS": "600"}, real=False,
    ),
    Suite("upstream-data", "Kubernetes' own test data on both servers", "verify", command=("hack.upstream_data",)),
    Suite("histories", "our controllers beside kube-controller-manager", "verify", _real("controllers_histories")),
    Suite("upstream-cel", "the expressions of upstream's CEL tests on both servers", "verify", command=("hack.upstream_cel",)),
    Suite("operators", "operators' own tests on both servers", "verify", command=("hack.operators",)),
    Suite("rollouts", "Argo Rollouts' own tests, with workloads", "verify", command=("hack.rollouts",)),
    Suite("kubectl", "kubectl's own tests on a tenant", "verify", command=("hack.kubectl_tests",)),
    Suite("crash", "a killed store loses no acknowledged write", "verify", _real("controlplane_crash")),
    Suite("package", "the installed package", "verify", _real("package")),
    Suite("documents", "every command of README.md and docs/", "verify", _real("documents"), programs=("helm", "jobset")),
    Suite("official", "a sample of the official tests", "verify", _real("official_tests"), programs=("e2e.test",)),
    Suite(
        "seeds", "the unit tests with another hash seed", "verify", ("tests/unit",),
        environment={"PYTHONHASHSEED": "4711", "HYPOTHESIS_PROFILE": "brief"}, real=False,
    ),
)  # fmt: skip
