"""`make up-real`: the whole system on real Kubernetes servers, by one command."""

import subprocess
import sys
from pathlib import Path

import pytest

from hack.testbed.binaries import locate


@pytest.mark.timeout(400)
def test_a_whole_system_starts_with_one_command(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "hack.up", "--once", "--nodes", "1", "--dir", tmp_path / "up")
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Pods run on both super clusters" in done.stdout
    assert locate("kubectl").exists()
    assert not (tmp_path / "up" / "state.json").exists()
