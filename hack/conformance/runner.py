"""Runs batches of official tests as processes of the test program, each test with a time limit."""

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from hack.conformance.reports import Result, read_junit
from hack.conformance.tests import E2eTest, batches, focus
from hack.testbed.processes import Process, Spawner, wait_gone
from hack.testbed.processes import stop as kill_processes

TEST_SECONDS = 180.0
"""Least time limit of one test."""
PATIENCE = 2.0
"""Time limit of a longer test, as a multiple of its usual time."""
SETUP_SECONDS = 300.0
"""Time limit before the first test and after the last."""
INTERRUPT_SECONDS = 60.0
"""Seconds in which an interrupted test can clean up before its process is killed."""
POLL_SECONDS = 0.25
ATTEMPTS = 3
"""Number of starts of a test whose process reported nothing about it."""
REPEATED = 3
"""Maximum number of failures of a run that are repeated, each alone; more failures are not accidental.

Some tests check a state only once, after a fixed wait, although it may be reached later.
"""

_RULE = "------------------------------"
_COMMON_FLAGS = (
    "--provider=skeleton",
    "--allowed-not-ready-nodes=-1",
    "--minStartupPods=-1",
    "--system-pods-startup-timeout=1s",
    "--system-daemonsets-startup-timeout=1s",
    "--ginkgo.v",
    "--ginkgo.no-color",
    "--ginkgo.silence-skips",
    "--ginkgo.output-interceptor-mode=none",
    "--ginkgo.timeout=6h",
    f"--ginkgo.grace-period={INTERRUPT_SECONDS / 2:.0f}s",
)


@dataclass(frozen=True)
class Target:
    """The target of the tests.

    `nodes`: number of nodes that the test program expects. `flags`: further ones for the test program.
    """

    program: Path
    kubectl: Path
    kubeconfig: Path
    nodes: int
    flags: tuple[str, ...] = ()


class Runner:
    """Runs tests in several concurrent processes, and then serial tests one after another.

    Args:
        target: the cluster and the programs.
        directory: for logs and reports.
        parallel: number of concurrent processes.
        on_result: called, from any thread, with every result as soon as it is known.
    """

    def __init__(
        self,
        target: Target,
        directory: Path,
        *,
        parallel: int,
        on_result: Callable[[Result], None],
    ) -> None:
        self._target = target
        self._directory = directory
        self._parallel = parallel
        self._on_result = on_result
        self._lock = threading.Lock()
        self._runs = 0

    def run(self, tests: Sequence[E2eTest]) -> list[Result]:
        """Run all tests, a few failed ones twice, and return the results."""
        together = [test for test in tests if not test.serial]
        alone = [test for test in tests if test.serial]
        results = [
            *self._run_batches(batches(together, self._parallel), self._parallel),
            *self._run_batches(batches(alone), 1),
        ]
        return self._repeat(results, {test.name: test for test in tests})

    def _repeat(self, results: list[Result], tests: Mapping[str, E2eTest]) -> list[Result]:
        failed = [result for result in results if result.outcome == "failed"]
        if len(failed) > REPEATED:
            return results
        again = {
            first.name: replace(second, message=first.message, repeated=True)
            for first in failed
            for second in self._run_batch([tests[first.name]])
        }
        return [again.get(result.name, result) for result in results]

    def _run_batches(self, all_batches: Iterable[list[E2eTest]], parallel: int) -> list[Result]:
        waiting: queue.SimpleQueue[list[E2eTest]] = queue.SimpleQueue()
        for batch in all_batches:
            waiting.put(batch)
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while True:
                    results.extend(self._run_batch(waiting.get_nowait()))
            except queue.Empty:
                return
            except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                errors.append(error)

        threads = [
            threading.Thread(target=work, name=f"conformance-{n}", daemon=True) for n in range(parallel)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def _run_batch(self, batch: Sequence[E2eTest]) -> list[Result]:
        results: list[Result] = []
        left, begun = list(batch), dict.fromkeys(batch, 0)
        while left:
            found = self._run_once(left)
            progress = bool(found)
            for test in left:
                begun[test] += 1
                if test.name not in found and begun[test] >= ATTEMPTS and not progress:
                    found[test.name] = Result(test.name, "failed", 0, "the test program did not report it")
            for result in found.values():
                self._on_result(result)
            results.extend(found.values())
            left = [test for test in left if test.name not in found]
        return results

    def _run_once(self, tests: Sequence[E2eTest]) -> dict[str, Result]:
        with self._lock:
            self._runs += 1
            number = self._runs
        log = self._directory / f"run-{number:03}.log"
        junit = self._directory / f"run-{number:03}.xml"
        command = (
            str(self._target.program),
            *_COMMON_FLAGS,
            *self._target.flags,
            f"--kubeconfig={self._target.kubeconfig}",
            f"--kubectl-path={self._target.kubectl}",
            f"--num-nodes={self._target.nodes}",
            f"--ginkgo.junit-report={junit}",
            f"--ginkgo.focus={focus(tests)}",
        )
        spawner = Spawner(die_with_us=True)
        process = spawner.start(command, log, self._directory)
        try:
            overrun = _watch(process, spawner, log, tests)
        finally:
            kill_processes([process], spawner.reap)
            spawner.close()
        try:
            found = read_junit(junit.read_text(errors="replace"), tests)
        except (OSError, ElementTree.ParseError):
            found = {}
        if overrun is not None:
            reported = found.get(overrun.name, Result(overrun.name, "failed", limit_of(overrun)))
            message = f"not within {limit_of(overrun):.0f} s: {reported.message}"
            found[overrun.name] = replace(reported, outcome="failed", message=message)
        # The file is large, because it lists every test of the program.
        junit.unlink(missing_ok=True)
        return found


def limit_of(test: E2eTest) -> float:
    """Return the time limit of a test, in seconds."""
    return max(TEST_SECONDS, PATIENCE * test.seconds)


def _watch(process: Process, spawner: Spawner, log: Path, tests: Sequence[E2eTest]) -> E2eTest | None:
    """Wait until the process ends; interrupt it when a test exceeds its limit, and return that test."""
    by_name = {test.name: test for test in tests}
    current: E2eTest | None = None
    since = time.monotonic()
    with log.open(errors="replace") as output:
        progress = Progress(by_name)
        while process.alive:
            if progress.read(output.read()):
                current, since = progress.current, time.monotonic()
            limit = SETUP_SECONDS if current is None else limit_of(current)
            if time.monotonic() - since > limit:
                process.send(signal.SIGINT)
                # If it does not end in time, the caller kills it.
                with suppress(TimeoutError):
                    wait_gone([process], INTERRUPT_SECONDS, spawner.reap)
                return current
            time.sleep(POLL_SECONDS)
            spawner.reap(process)
    return None


class Progress:
    """Finds the running test in the test program's output, where its name follows a horizontal line."""

    def __init__(self, tests: dict[str, E2eTest]) -> None:
        self._tests = tests
        self._rest = ""
        self._after_rule = False
        self.current: E2eTest | None = None

    def read(self, text: str) -> bool:
        """Add output; return whether another test has started, or the running one has ended."""
        changed = False
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if self._after_rule and line:
                begun = self._named(line)
                changed = changed or begun != self.current
                self.current = begun
            self._after_rule = line == _RULE
        return changed

    def _named(self, line: str) -> E2eTest | None:
        text = line.rstrip()
        while text and text not in self._tests:
            text = text.rpartition(" [")[0]
        return self._tests.get(text)
