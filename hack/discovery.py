"""Record the resources that a real API server serves.

python -m hack.discovery KUBECONFIG

KUBECONFIG is one of a test bed's (`<dir>/<cluster>.kubeconfig`). Writes vcsync/apimachinery/schema/resources.json.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hack.table_columns import Server, versions

OUT = Path(__file__).resolve().parent.parent / "vcsync" / "apimachinery" / "schema" / "resources.json"


def record(server: Server) -> Iterator[dict[str, Any]]:
    """Yield every resource with its subresources, in the order of discovery."""
    for group, path in versions(server):
        listed = server.get(path)
        group_version = listed["groupVersion"]
        subresources: dict[str, dict[str, Any]] = {}
        for found in listed["resources"]:
            parent, _, name = found["name"].partition("/")
            if name:
                subresources.setdefault(parent, {})[name] = _subresource(found, group_version)
        for found in listed["resources"]:
            if "/" not in found["name"]:
                yield _resource(found, group, group_version, subresources.get(found["name"], {}))


def _resource(
    found: dict[str, Any], group: str, group_version: str, subresources: dict[str, Any]
) -> dict[str, Any]:
    return {
        "group": group,
        "version": group_version.rpartition("/")[2],
        "plural": found["name"],
        "singular": found["singularName"],
        "kind": found["kind"],
        "namespaced": found["namespaced"],
        "verbs": found["verbs"],
        "short_names": found.get("shortNames", []),
        "categories": found.get("categories", []),
        "storage_version_hash": found.get("storageVersionHash", ""),
        "subresources": subresources,
    }


def _subresource(found: dict[str, Any], group_version: str) -> dict[str, Any]:
    group, _, version = group_version.rpartition("/")
    return {
        "verbs": found["verbs"],
        "group": found.get("group", group) if "version" in found else group,
        "version": found.get("version", version),
        "kind": found["kind"],
    }


def main() -> None:
    """Run from the command line."""
    lines = [json.dumps(each, separators=(",", ":")) for each in record(Server(Path(sys.argv[1])))]
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
