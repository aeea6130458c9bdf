"""Creates .venv: the locked packages by hash, this checkout on its path, and the commands of the package.

Needs only the standard library, so that any Python >= 3.11 can run it on a fresh clone. A stamp file with the digest
of the lock lets later runs end within milliseconds.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
LOCK = ROOT / "requirements-dev.lock"
OLDEST_PYTHON = (3, 11)

PROGRAMS = {"vcsync": "vcsync.cli.command.main", "kubectl-vcsync": "vcsync.cli.kubectl.plugin"}
"""The programs of the package and the modules with their `main`, as in pyproject.toml."""
LAUNCHER = """\
#!{python}
import sys

from {module} import main

sys.exit(main())
"""


class SetupError(Exception):
    """The environment cannot be created; the text gives the reason and the remedy."""


def digest() -> str:
    """Return the SHA-256 of everything the environment depends on: the lock, this script, the interpreter's version."""
    content = LOCK.read_bytes() + Path(__file__).read_bytes() + repr(sys.version_info[:2]).encode()
    return hashlib.sha256(content).hexdigest()


def run(step: str, *command: str) -> None:
    """Run the command of one step; print its output only if it fails.

    Raises:
        SetupError: The step failed.
    """
    print(f"    {step}", flush=True)
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        reason = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no output")
        raise SetupError(f"{step} failed: {reason}")


def make() -> None:
    """Update .venv to the lock; does nothing if it is up to date.

    Raises:
        SetupError: A step failed, or the interpreter is too old.
    """
    if sys.version_info[:2] < OLDEST_PYTHON:
        raise SetupError(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed")
    stamp = ENVIRONMENT / "vcsync.stamp"
    wanted = digest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print("==> Python environment in .venv", flush=True)
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        run("creating it", sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--quiet")
    run("installing the locked packages", *pip, "install", "--require-hashes", "-r", str(LOCK))
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    (Path(where.stdout.strip()) / "vcsync-checkout.pth").write_text(f"{ROOT}\n")
    for program, module in PROGRAMS.items():
        launcher = ENVIRONMENT / "bin" / program
        launcher.write_text(LAUNCHER.format(python=python, module=module))
        launcher.chmod(0o755)
    stamp.write_text(wanted)


def main() -> int:
    """Create the environment; on failure the last line contains the reason."""
    try:
        make()
    except (SetupError, OSError, subprocess.CalledProcessError) as error:
        print(f"environment: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
