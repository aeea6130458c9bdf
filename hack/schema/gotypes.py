"""Record the JSON form of the built-in kinds from their Go types (needs Go and the test bed's modules).

python -m hack.schema.gotypes        after moving to another release of Kubernetes; the result is committed
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hack.schema import builtin
from vcsync.apimachinery.schema.builtin import resources

HERE = Path(__file__).resolve().parent
MODULES = HERE.parent / "testbed" / "modules" / "kubernetes"
APIMACHINERY = ("apis/meta/v1", "api/resource", "util/intstr", "runtime", "types", "version")
OWN_MODULES = {
    "apiextensions.k8s.io": ("apiextensions-apiserver", "pkg/apis/apiextensions"),
    "apiregistration.k8s.io": ("kube-aggregator", "pkg/apis/apiregistration"),
}
"""Group whose types are not in the module k8s.io/api -> (module, folder)."""


def main() -> int:
    """Run from the command line."""
    arguments = [f"{name}={folder}" for name, folder in _packages()]
    output = subprocess.run(["go", "run", HERE / "gotypes.go", *arguments], check=True, capture_output=True)
    facts = _needed(json.loads(output.stdout))
    lines = [f"{json.dumps(name)}: {json.dumps(facts[name], sort_keys=True)}" for name in sorted(facts)]
    builtin.FACTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


def _packages() -> list[tuple[str, Path]]:
    """Return (public name, folder) of every package with types."""
    packages = []
    for group, version in dict.fromkeys((each.group, each.version) for each in resources()):
        module, path = OWN_MODULES.get(group, ("api", (group or "core").partition(".")[0]))
        if group == "rbac.authorization.k8s.io":
            path = "rbac"
        packages.append(_package(module, f"{path}/{version}"))
    return packages + [_package("apimachinery", f"pkg/{path}") for path in APIMACHINERY]


def _package(module: str, path: str) -> tuple[str, Path]:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", f"k8s.io/{module}"]
    folder = subprocess.run(command, cwd=MODULES, check=True, capture_output=True, text=True).stdout.strip()
    return f"io.k8s.{module}.{path.replace('/', '.')}", Path(folder) / path


def _needed(types: dict[str, Any]) -> dict[str, Any]:
    """Return only the types that built-in kinds contain."""
    needed: dict[str, Any] = {}
    waiting = set(builtin.definition_names())
    while waiting:
        name = waiting.pop()
        if name in types:
            needed[name] = types[name]
            texts = [each["type"] for each in types[name].get("fields", ())] + [types[name].get("alias", "")]
            waiting |= {found for text in texts for found in re.findall(r"io\.k8s\.[\w.-]+", text)} - set(
                needed
            )
    return needed


if __name__ == "__main__":
    sys.exit(main())
