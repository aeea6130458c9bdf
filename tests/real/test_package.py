"""`pip install .` installs every file that vcsync needs, and `vcsync up` works in any folder."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from hack.generate import ROOT
from tests.real.up_kit import Up

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("vcsync-*.whl")
    return built


def run(*command: str) -> str:
    # Pip compiles the modules that it installs, whatever the tests' environment says.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=plain, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_holds_every_file_of_the_program(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("vcsync/")}
    there = (
        path for path in (ROOT / "vcsync").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    assert packed == {path.relative_to(ROOT).as_posix() for path in there}


def test_the_package_has_a_bill_of_materials(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if ".dist-info/sboms/" in each]
        found = json.loads(archive.read(name))
    assert {"aiohttp", "kubernetes-asyncio"} <= {each["name"] for each in found["components"]}


@pytest.mark.timeout(390)
def test_the_installed_program_runs_the_whole_system_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    """The dependencies come from this environment, vcsync itself only from the package."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv/bin/python")
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", str(wheel))
    assert run(python, "-I", "-c", "import vcsync; print(vcsync.__file__)").strip() == str(
        packages / "vcsync/__init__.py"
    )
    up = Up(tmp_path / "elsewhere")
    try:
        up.start(program=(python, "-I", str(tmp_path / "venv/bin/vcsync")))
        up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
        up.kubectl("create deployment web --image=nginx --replicas=2")
        up.kubectl("set resources deployment web --requests=cpu=500m,memory=128Mi")
        up.running(2)
    finally:
        code = up.end(signal.SIGTERM)
    assert code == 0
