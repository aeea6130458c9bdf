"""`python -m hack.kubectl_tests`: runs kubectl's own tests against a tenant and reports every unexpected failure."""

import argparse
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from hack.embedded import ANY_RATE, ControlPlane
from hack.kubectl_tests import sources
from hack.testbed import ensure
from hack.testbed.processes import free_ports
from hack.upstream_data.sources import modules

HERE = Path(__file__).parent
KNOWN: Mapping[str, str] = yaml.safe_load((HERE / "known.yaml").read_text(encoding="utf-8"))
"""Groups that fail on a tenant, with the reason."""
KUBERNETES = "k8s.io/kubernetes"
TENANT = "kubectl"
TOKEN_FILE = f'admin-token,admin,admin,"",{TENANT}\n'
"""The tests send this token."""
ALLOW_ALL = (
    "create",
    "clusterrolebinding",
    "tests",
    "--clusterrole=cluster-admin",
    "--group=system:authenticated",
)
"""The tests expect an API server that allows everything."""
NODE = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}},
        "status": {"capacity": {"memory": "1Gi"}},
    }
)
"""The node that the tests expect (Kubernetes' `hack/make-rules/test-cmd.sh`)."""
TERMINATED = 143
SHOWN_LINES = 25
"""Lines of the log of an unexpected failure."""


def main() -> int:
    """Run the command; returns 0 if only known groups failed, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m hack.kubectl_tests", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", default="", help="groups whose name matches")
    parser.add_argument("--logs", metavar="DIR", type=Path, help="where to keep the groups' logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # No process remains.
    module = modules((KUBERNETES,))[KUBERNETES]
    every = sources.groups((module / sources.SCRIPT).read_text(encoding="utf-8"))
    wanted = [each for each in every if re.search(options.only, each)]
    with tempfile.TemporaryDirectory(prefix="vcsync-kubectl-") as directory:
        folder = Path(directory)
        logs = (options.logs or folder / "logs").absolute()
        logs.mkdir(parents=True, exist_ok=True)
        sources.copy(module, folder / "root", ensure(("kubectl",), print)["kubectl"])
        with tenant(folder) as port:
            failed = run(wanted, folder, logs, port)
        unexpected = [each for each in failed if each not in KNOWN]
        for each in unexpected:
            text = (logs / f"{each}.log").read_text(encoding="utf-8", errors="replace").splitlines()
            print(f"--- {each}", *text[-SHOWN_LINES:], sep="\n")
    mended = [each for each in wanted if each in KNOWN and each not in failed]
    for each in mended:
        print(f"known.yaml: {each} passes; remove it", file=sys.stderr)
    print(f"{len(wanted)} groups, {len(failed)} failed, {len(unexpected)} of them unexpectedly")
    return 1 if unexpected or mended or not wanted else 0


@contextmanager
def tenant(folder: Path) -> Iterator[int]:
    """Run a tenant with its controllers, which the tests' token may administrate; returns the port."""
    tokens = folder / "tokens.csv"
    tokens.write_text(TOKEN_FILE, encoding="utf-8")
    with ControlPlane(folder / "plane", arguments=("--token-file", str(tokens), *ANY_RATE)) as plane:
        kubectl = [str(ensure(("kubectl",), print)["kubectl"])]
        kubectl.append(f"--kubeconfig={plane.create(TENANT, '--nodes', 'own')}")
        subprocess.run([*kubectl, *ALLOW_ALL], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            [*kubectl, "create", "-f", "-"], input=NODE, text=True, check=True, stdout=subprocess.DEVNULL
        )
        command = [sys.executable, "-m", "vcsync", "run", "controllers", "--no-leader-elect"]
        command += ["--data", str(plane.data), "--listen", f"127.0.0.1:{free_ports(1)[0]}"]
        with (folder / "controllers.log").open("wb") as log:
            controllers = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield plane.port
        finally:
            controllers.terminate()
            controllers.wait()


def run(wanted: Sequence[str], folder: Path, logs: Path, port: int) -> list[str]:
    """Run groups and print their results; returns those that failed.

    Raises:
        RuntimeError: The scripts ended before the last group; the text has the end of their output.
    """
    # kubectl writes paths beside its kubeconfig in another form.
    home, temporary = folder / "home", folder / "temporary"
    home.mkdir()
    temporary.mkdir()
    certificate = ssl.get_server_certificate(("127.0.0.1", port))
    (temporary / "apiserver.crt").write_text(certificate, encoding="utf-8")
    environment = {
        **os.environ,
        "SECURE_API_PORT": str(port),
        "KUBE_TEMP": str(home),
        "TMPDIR": str(temporary),
        "LOGS": str(logs),
        "GROUPS_TO_RUN": " ".join(wanted),
    }
    failed, seen = [], 0
    with subprocess.Popen(
        ["bash", str(HERE / "groups.sh")],
        cwd=folder / "root",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout or ():
            group, code = line.split()
            seen += 1
            print(f"{group}: {'passed' if code == '0' else 'failed'}", flush=True)
            if code != "0":
                failed.append(group)
    if seen < len(wanted):
        ended = (logs / "setup.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RuntimeError(f"the scripts ended with {process.returncode} after {seen} groups:\n{ended}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
