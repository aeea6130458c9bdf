"""Processes are identified reliably, and none remains."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hack.testbed import processes, state
from hack.testbed.plan import Plan
from hack.testbed.processes import Process, Spawner
from hack.testbed.state import State

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Process:
    spawner = Spawner(die_with_us=True)
    process = spawner.start(SLEEP, tmp_path / "log", tmp_path)
    yield process
    processes.stop([process], spawner.reap)
    spawner.close()


def test_a_stopped_process_is_gone(tmp_path: Path) -> None:
    spawner = Spawner(die_with_us=True)
    process = spawner.start(SLEEP, tmp_path / "log", tmp_path)
    assert process.alive
    processes.stop([process], spawner.reap)
    assert not Path(f"/proc/{process.pid}").exists()
    assert spawner.reap(process) == -signal.SIGKILL
    spawner.close()


def test_a_recycled_process_id_is_left_alone(sleeper: Process) -> None:
    for other in (replace(sleeper, start_time=sleeper.start_time - 1), replace(sleeper, boot_id="another")):
        assert not other.alive
        processes.stop([other])
    assert sleeper.alive


def test_a_frozen_process_is_stopped_too(tmp_path: Path) -> None:
    spawner = Spawner(die_with_us=True)
    process = spawner.start(SLEEP, tmp_path / "log", tmp_path)
    process.send(signal.SIGSTOP)
    processes.stop([process], spawner.reap)
    assert not process.alive
    spawner.close()


def test_servers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from hack.testbed.processes import Spawner
spawner = Spawner(die_with_us=True)
child = spawner.start({SLEEP!r}, Path("log"), Path("."))
print(child.pid, child.start_time, flush=True)
time.sleep(60)
"""
    root = Path(processes.__file__).parents[2]
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=tmp_path, env={"PYTHONPATH": str(root)}, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, started = map(int, parent.stdout.readline().split())
        child = Process(pid, started, processes.boot_id(), (), "")
        assert child.alive
        parent.kill()
    processes.wait_gone([child], 10)


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    spawner = Spawner(die_with_us=True)
    process = spawner.start([sys.executable, "-c", "print('hello')"], tmp_path / "log", tmp_path)
    processes.wait_gone([process], 10, spawner.reap)
    assert (tmp_path / "log").read_text() == "hello\n"
    spawner.close()


def test_waiting_for_a_process_has_a_time_limit(sleeper: Process) -> None:
    with pytest.raises(TimeoutError, match=str(sleeper.pid)):
        processes.wait_gone([sleeper], 0)


def test_ports_are_free_distinct_and_outside_the_kernels_range() -> None:
    first = processes.free_ports(50)
    assert len(set(first)) == 50
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(first) < max(ephemeral, 24_000)
    assert not set(first) & set(processes.free_ports(50, first))


def test_a_port_is_returned_once_even_if_it_is_still_free() -> None:
    first = processes.free_ports(1000)
    assert not set(first) & set(processes.free_ports(1000))


def test_ports_are_not_given_to_another_process_while_theirs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.tempfile, "gettempdir", lambda: str(tmp_path))
    code = (
        "import sys, tempfile; tempfile.gettempdir = lambda: sys.argv[1];"
        "from hack.testbed.processes import free_ports; print(*free_ports(1000), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(map(int, other.stdout.readline().split()))
        assert not theirs & set(processes.free_ports(1000))
        other.communicate("")
    record = next(tmp_path.glob("vcsync-ports-*"))
    processes.free_ports(1, theirs)  # now free, and could be chosen by chance
    assert not theirs & set(map(int, json.loads(record.read_text())))
    record.write_text("{")
    assert len(processes.free_ports(1)) == 1


def test_memory_of_a_process() -> None:
    assert processes.resident_memory(os.getpid()) > 1 << 20
    assert processes.resident_memory(1 << 30) == 0


def test_the_state_file_keeps_everything_and_is_private(tmp_path: Path, sleeper: Process) -> None:
    plan = Plan("r1", "super", 0, tmp_path / "r1", 1, 2, "http://e", "token")
    written = State("http://e", sleeper, True, {"r1": plan}, {"r1": {"kwok": sleeper}})
    state.save(written, tmp_path)
    assert state.load(tmp_path) == written
    assert written.running() == [sleeper]
    assert (tmp_path / state.FILE).stat().st_mode & 0o077 == 0


def test_no_state_and_foreign_state(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None
    (tmp_path / state.FILE).write_text('{"etcd_url": 5}')
    with pytest.raises(ValueError, match="remove it"):
        state.load(tmp_path)
