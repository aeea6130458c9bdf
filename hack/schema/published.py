"""Record the parts of Kubernetes' OpenAPI document that its JSON schemas omit (needs Go and the test bed's modules).

They are the descriptions of parameters, and of the types for which the JSON schemas have no description.

python -m hack.schema.published      after moving to another release of Kubernetes; the result is committed
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hack.schema.builtin import PUBLISHED
from vcsync.apimachinery.schema.builtin import KIND_MARK

MODULES = Path(__file__).resolve().parent.parent / "testbed" / "modules" / "kubernetes"
TYPES = (
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
)
"""Types for which the JSON schemas have no description."""
Uses = dict[str, Counter[str]]
"""Description -> number of uses by action, or by kind."""


def main() -> int:
    """Run from the command line."""
    document = json.loads((_module() / "api/openapi-spec/swagger.json").read_text(encoding="utf-8"))
    found = {
        "parameters": dict(sorted(_parameters(document).items())),
        "types": {name: document["definitions"][name]["description"] for name in TYPES},
    }
    PUBLISHED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def _module() -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]
    return Path(
        subprocess.run(command, cwd=MODULES, check=True, capture_output=True, text=True).stdout.strip()
    )


def _parameters(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return `in/name` of each parameter -> [type, descriptions].

    If the description differs between operations, the descriptions are keyed by action, or by kind if the action does
    not determine them. The most frequent description has the empty key.
    """
    types: dict[str, str] = {}
    actions: dict[str, Uses] = defaultdict(lambda: defaultdict(Counter))
    kinds: dict[str, Uses] = defaultdict(lambda: defaultdict(Counter))
    for parameter, action, kind in _uses(document):
        name = f"{parameter['in']}/{parameter['name']}"
        text = parameter.get("description", "")
        if kind and text.endswith(f" {kind}"):
            text = text.removesuffix(kind) + KIND_MARK
        types[name] = parameter["type"]
        actions[name][text][action] += 1
        kinds[name][text][kind] += 1
    return {
        name: [types[name], _descriptions(actions[name]) or _descriptions(kinds[name])]
        for name in types
    }  # fmt: skip


def _uses(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield (parameter, action, kind) for every parameter of every operation except bodies."""
    for path in document["paths"].values():
        for method, operation in path.items():
            if method == "parameters":
                continue
            kind = operation.get("x-kubernetes-group-version-kind", {}).get("kind", "")
            for each in (*path.get("parameters", ()), *operation.get("parameters", ())):
                found = document["parameters"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
                if found["in"] != "body":
                    yield found, operation.get("x-kubernetes-action", ""), kind


def _descriptions(uses: Uses) -> dict[str, str]:
    """Return use -> description; empty if the use does not determine the description."""
    frequent = max(uses, key=lambda text: (uses[text].total(), text))
    found = {use: text for text, counted in uses.items() for use in counted if text != frequent}
    if len(found) < sum(len(counted) for text, counted in uses.items() if text != frequent):
        return {}
    return {} if any(use in uses[frequent] for use in found) else {"": frequent, **found}


if __name__ == "__main__":
    sys.exit(main())
