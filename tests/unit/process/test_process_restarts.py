"""A supervised process is started again if its watchdog has ended it, and only then."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys
from pathlib import Path
from vcsync.process import restarts
from vcsync.process.end_signal import END_SIGNAL

restarts.supervise("again")
with restarts.scratch("x-") as folder:
    count = folder / "count"
    starts = int(count.read_text()) + 1 if count.exists() else 1
    count.write_text(str(starts))
    print(folder, flush=True)
    exec(sys.argv[1])
"""
STALL_ONCE = "os.kill(os.getpid(), END_SIGNAL) if starts == 1 else sys.exit(starts)"
WAIT = "print(os.getpid(), flush=True); signal.pause()"


def run(what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_stalled_process_is_started_again_with_its_temporary_data() -> None:
    ended = run(STALL_ONCE)
    assert (ended.returncode, ended.stderr) == (2, "again\n")
    first, second = ended.stdout.splitlines()
    assert first == second
    assert not Path(first).exists(), "it is removed at the end"


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGABRT)", 128 + signal.SIGABRT),
    ],
)
def test_other_ends_are_passed_on(what: str, code: int) -> None:
    ended = run(what)
    assert ended.returncode == code
    (folder,) = ended.stdout.splitlines()
    assert not Path(folder).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_once(number: signal.Signals) -> None:
    handler = "signal.signal(signal.{0}, lambda *_: (print('told', flush=True), sys.exit(5)))"
    command = [sys.executable, "-c", PROGRAM, f"{handler.format(number.name)}; {WAIT}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        child = int(process.stdout.readline())
        assert child != process.pid
        process.send_signal(number)
        assert process.stdout.read() == "told\n"
        assert process.wait(30) == 5


def test_the_child_ends_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, WAIT], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert int(process.stdout.readline()) != process.pid
        process.kill()
        process.communicate(timeout=60)  # the pipe is closed once both have ended
    (folder / "count").unlink()
    folder.rmdir()


def test_a_third_signal_kills_a_child_that_does_not_obey() -> None:
    ignore = "signal.signal(signal.SIGINT, lambda *_: print('no', flush=True))"
    command = [sys.executable, "-c", PROGRAM, f"{ignore}; {WAIT}; signal.pause(); signal.pause()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGKILL
