"""Runs Argo Rollouts' controller and suites of its end-to-end tests on a cluster, each suite in a namespace of its own."""

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hack.operators.cases import Case
from hack.operators.programs import command, prepare, program
from hack.rollouts.catalog import CONTROLLER, DEFINITIONS, INSTANCE, ROLLOUTS, TESTS
from hack.rollouts.outcomes import cases
from hack.testbed import ensure
from hack.testbed.binaries import BuildError
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually

LIMIT_SECONDS = 3600
"""Time limit of one suite."""
STOP_SECONDS = 30

Progress = Callable[[str], None]


class Installation:
    """Argo Rollouts on a cluster: definitions, controller, and the program of its tests.

    Args:
        kubeconfig: the cluster's administrator.
        logs: folder for logs and kubeconfigs.
        report: gets a line for each program that is built.

    Raises:
        BuildError: a program does not build.
    """

    def __init__(self, kubeconfig: Path, logs: Path, report: Progress) -> None:
        self._kubeconfig, self._logs = kubeconfig, logs
        self._controller = command(ROLLOUTS, CONTROLLER, report)
        self._tests = program(ROLLOUTS, TESTS, report)
        self._source = prepare(ROLLOUTS, report)
        self._running: list[subprocess.Popen[bytes]] = []
        self._bin = logs / "bin"
        self._bin.mkdir(parents=True, exist_ok=True)
        self._kubectl = self._bin / "kubectl"  # The tests call it.
        if not self._kubectl.exists():
            self._kubectl.symlink_to(ensure(("kubectl",), report)["kubectl"])

    def define(self) -> None:
        """Apply the definitions, and wait until they are established."""
        self._run("apply", "--server-side", "-k", str(self._source / DEFINITIONS))
        self._run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    @contextmanager
    def controller(self) -> Iterator[None]:
        """Run the controller, and wait until it is healthy."""
        metrics, health = free_ports(2)
        command = [
            str(self._controller), f"--kubeconfig={self._kubeconfig}", f"--instance-id={INSTANCE}", "--leader-elect=false",
            f"--metricsPort={metrics}", f"--healthzPort={health}", "--loglevel=debug",
        ]  # fmt: skip
        with (self._logs / "controller.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            eventually(lambda: process.poll() is not None or _answers(health))
            if process.poll() is not None:
                raise BuildError(f"the controller has ended; its log is {self._logs / 'controller.log'}")
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, suite: str, methods: Sequence[str], attempt: str) -> dict[str, Case]:
        """Run cases of a suite in a new namespace, and return name -> result.

        Args:
            suite: function of Go that starts the suite.
            methods: the cases.
            attempt: part of the name of the namespace and of the log.
        """
        name = f"{suite.removeprefix('Test').removesuffix('Suite').lower()}-{attempt}"
        kubeconfig, log = self._namespace(name), self._logs / f"{name}.log"
        command = [
            str(self._tests), "-test.v", f"-test.timeout={LIMIT_SECONDS}s", "-test.parallel=1", f"-test.run=^{suite}$",
            f"-testify.m=^({'|'.join(methods)})$",
        ]  # fmt: skip
        settings = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(self._logs),
            "PATH": f"{self._bin}:{os.environ['PATH']}",
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._source / TESTS,
                env={**os.environ, **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            self._running.append(process)
            try:
                process.wait(LIMIT_SECONDS + 60)
            except subprocess.TimeoutExpired:
                output.write(b"\nit did not end\n")
            finally:
                process.kill()
                process.wait()
        return cases(log.read_text(encoding="utf-8", errors="replace"))

    def stop(self) -> None:
        """End all tests that run."""
        for process in self._running:
            process.kill()

    def _namespace(self, name: str) -> Path:
        """Create a namespace; return a kubeconfig whose default it is, which the tests expect."""
        kubeconfig = self._logs / f"{name}.kubeconfig"
        shutil.copyfile(self._kubeconfig, kubeconfig)
        kubeconfig.chmod(0o600)
        self._run("create", "namespace", name)
        self._run("config", "set-context", "--current", f"--namespace={name}", kubeconfig=kubeconfig)
        account = [str(self._kubectl), f"--kubeconfig={kubeconfig}", "get", "serviceaccount", "default"]
        eventually(lambda: subprocess.run(account, capture_output=True, check=False).returncode == 0)
        return kubeconfig

    def _run(self, *arguments: str, kubeconfig: Path | None = None) -> None:
        command = [str(self._kubectl), f"--kubeconfig={kubeconfig or self._kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()[-300:]}")


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
