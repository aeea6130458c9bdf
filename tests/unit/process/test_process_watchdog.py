"""The watchdog sees that an event loop stands, names whose work runs, and ends the process if it does not go on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from vcsync.apiserver.serving.request_counts import RequestMetrics
from vcsync.process import marks, stall_report, watchdog
from vcsync.process.end_signal import END_SIGNAL
from vcsync.process.marks import NOBODY, Mark
from vcsync.process.stall_counts import MOST_TENANTS, StallCounts
from vcsync.process.watchdog import left_report
from vcsync.status.sources import registry

PROGRAM = """
import asyncio, re, sys, os, signal, time
from pathlib import Path
from vcsync.process import logs, loop, watchdog
from vcsync.process.end_signal import END_SIGNAL
from vcsync.process.marks import marked, run_marked
from vcsync.process.stall_counts import STALLS

def endless():
    while True:
        pass

def locked():
    re.match("(a|a)*$", "a" * 60 + "b")

def deep(depth):
    return deep(depth - 1) if depth else endless()

def short():
    began = time.process_time()
    while time.process_time() - began < 3 * watchdog.LIMITS.log:
        pass

async def work(what):
    await asyncio.sleep(0)
    if what == "thread":
        await asyncio.to_thread(locked)
    elif what == "deep":
        sys.setrecursionlimit(2000)
        deep(500)
    elif what == "wait":
        await asyncio.sleep(0.01)
    elif what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        globals()[what]()

async def main(what, tenant):
    loop.started()
    if what == "profiled":
        signal.raise_signal(signal.SIGPROF)
        return
    if tenant:
        await marked("request", tenant, work(what), "GET", "/api")
    else:
        await work(what)
    await asyncio.sleep(0.1)
    print({sample.labels["tenant"]: sample.value for family in STALLS.collect() for sample in family.samples
           if sample.name.endswith("_total")})

logs.configure("info", "json")
if sys.argv[1] == "profiled":
    signal.signal(signal.SIGPROF, lambda *_: print("a sample"))
watchdog.LIMITS.log, watchdog.LIMITS.end = 0.1, 60 if sys.argv[1] == "short" else 0.5
watchdog.LIMITS.folder = Path(sys.argv[3]) if len(sys.argv) > 3 else None
loop.run(main(sys.argv[1], sys.argv[2]))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def lines(errors: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in errors.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("what", ["endless", "deep", "locked", "thread"])
def test_endless_work_ends_the_process_and_the_report_names_its_tenant(what: str, tmp_path: Path) -> None:
    ended = run(what, "acme", str(tmp_path))
    assert ended.returncode == -END_SIGNAL
    report = left_report(tmp_path)
    found = stall_report.suspects(report)
    assert (found.tenants, found.sure) == ({"acme"}, True), report
    assert found.mark == Mark("request", "acme")


def test_a_loop_that_stands_in_python_is_logged_while_it_stands(tmp_path: Path) -> None:
    ended = run("endless", "acme", str(tmp_path))
    (told,) = lines(ended.stderr)
    assert (told["tenant"], told["kind"], told["what"]) == ("acme", "request", "GET /api")
    assert "in endless" in str(told["stacks"])


def test_work_without_a_mark_makes_nobody_suspect(tmp_path: Path) -> None:
    ended = run("endless", "", str(tmp_path))
    assert ended.returncode == -END_SIGNAL
    found = stall_report.suspects(left_report(tmp_path))
    assert (found.mark, found.sure) == (NOBODY, False)


def test_without_a_folder_the_report_goes_to_standard_error() -> None:
    ended = run("locked", "acme")
    assert stall_report.suspects(ended.stderr).tenants == {"acme"}


def test_a_stall_that_ends_is_counted_and_leaves_no_report(tmp_path: Path) -> None:
    ended = run("short", "acme", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "'acme': 1.0" in ended.stdout
    assert left_report(tmp_path) == ""


def test_a_suspended_process_has_not_stalled(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "stop", "acme", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)  # longer than both limits
        process.send_signal(signal.SIGCONT)
        told, errors = process.communicate(timeout=60)
    assert (process.returncode, told.strip()) == (0, "{}"), errors


def test_a_loop_that_waits_has_not_stalled(tmp_path: Path) -> None:
    ended = run("wait", "acme", str(tmp_path))
    assert (ended.returncode, ended.stdout.strip()) == (0, "{}"), ended.stderr


def test_a_profiler_keeps_its_signal() -> None:
    ended = run("profiled", "acme")
    assert (ended.returncode, ended.stdout.strip()) == (0, "a sample"), ended.stderr


CURRENT = 'Current thread 0x01 (most recent call first):\n  File "/x/a.py", line 1 in work\n'
OTHER = 'Thread 0x02 (most recent call first):\n  File "/x/b.py", line 1 in load\n'
IDLE = 'Thread 0x03 (most recent call first):\n  File "/p/asyncio/runners.py", line 118 in run\n'
POOL = 'Thread 0x04 (most recent call first):\n  File "/p/concurrent/futures/thread.py", line 81 in _worker\n'
ACME, OTHERS = (f'  File "/x/m.py", line 2 in {Mark("request", each).name}\n' for each in ("acme", "other"))


@pytest.mark.parametrize(
    ("text", "tenants", "sure"),
    [
        ("", set(), False),
        (CURRENT + ACME, {"acme"}, True),
        (POOL + OTHER + CURRENT + ACME, {"acme"}, True),
        (CURRENT + ACME + IDLE, {"acme"}, True),
        # A thread that only waits for the lock has a mark as well.
        (OTHER + OTHERS + CURRENT + ACME, {"acme", "other"}, False),
        # The main thread, or the one that used the processor, worked for nobody known.
        (OTHER + ACME + CURRENT, {"acme", ""}, False),
        (CURRENT + OTHER + ACME, {"acme", ""}, False),
        # The stack was too long for a dump, but the watchdog's thread has read all of it.
        (f"{stall_report.STANDS}{Mark('request', 'acme').name}\nGET /\n{CURRENT}", {"acme"}, True),
        # The last dump of a stall counts.
        (OTHER + OTHERS + CURRENT + ACME + stall_report.AGAIN + CURRENT + ACME, {"acme"}, True),
        (CURRENT + ACME + stall_report.AGAIN, {"acme"}, True),
    ],
)
def test_suspects_are_the_tenants_whose_work_some_thread_ran(
    text: str, tenants: set[str], sure: bool
) -> None:
    found = stall_report.suspects(text)
    assert (found.tenants, found.sure) == (tenants, sure)


def test_the_innermost_mark_counts() -> None:
    async def inner() -> tuple[Mark, str]:
        await asyncio.sleep(0)
        mark, frame = marks.innermost(sys._getframe())
        return mark, marks.described(frame)

    async def outer() -> tuple[Mark, str]:
        return await marks.marked("request", "acme", inner(), "GET", "/x")

    found = asyncio.run(asyncio.wait_for(marks.marked("deployment", "other", outer()), 10))
    assert found == (Mark("request", "acme"), "GET /x")


def test_a_thread_of_the_pool_has_the_mark_of_who_submitted() -> None:
    with marks.MarkingExecutor(1) as pool:
        job = marks.run_marked("request", "acme", pool.submit, lambda: marks.innermost(sys._getframe())[0])
        assert job.result() == Mark("request", "acme")
        assert pool.submit(lambda: marks.innermost(sys._getframe())[0]).result() == NOBODY


@pytest.mark.parametrize("name", ["run", "<lambda>", "<vcsync ", "<module>"])
def test_other_names_are_no_marks(name: str) -> None:
    assert marks.read(name) is None


def test_reports_are_put_away_and_the_oldest_are_removed(tmp_path: Path) -> None:
    assert left_report(tmp_path / "none") == ""
    for number in range(watchdog.MOST_REPORTS + 3):
        (tmp_path / watchdog.RUNNING).write_text(f"report {number}")
        os.utime(tmp_path / watchdog.RUNNING, (number, number))
        assert left_report(tmp_path) == f"report {number}"
        assert left_report(tmp_path) == ""
    kept = [each.read_text() for each in sorted(tmp_path.iterdir())]
    assert kept == [f"report {number}" for number in range(3, watchdog.MOST_REPORTS + 3)]


def test_each_process_shows_its_stalls_among_its_metrics() -> None:
    wanted = b"# TYPE vcsync_event_loop_stalls_total counter"
    assert wanted in generate_latest(registry({}))
    assert wanted in RequestMetrics().text("system")
    assert wanted not in RequestMetrics().text("acme")


def test_the_number_of_counted_tenants_is_bounded() -> None:
    counts = StallCounts()
    for number in range(MOST_TENANTS + 5):
        counts.add(f"t{number}")
    (family,) = counts.collect()
    found = {sample.labels["tenant"]: sample.value for sample in family.samples}
    assert len(found) == MOST_TENANTS + 1
    assert found[""] == 5
