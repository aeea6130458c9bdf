"""Record the Table columns of each built-in resource from a real API server.

python -m hack.table_columns KUBECONFIG

The server must have a Deployment, because the columns of its Scale are recorded, too.
KUBECONFIG is one of a test bed's (`<dir>/<cluster>.kubeconfig`). Writes vcsync/apimachinery/kinds/columns.jsonl.
"""

import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

OUT = Path(__file__).resolve().parent.parent / "vcsync" / "apimachinery" / "kinds" / "columns.jsonl"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Server:
    """A client of a server that a test bed started."""

    def __init__(self, kubeconfig: Path) -> None:
        settings = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        self._url = settings["clusters"][0]["cluster"]["server"]
        self._token = settings["users"][0]["user"]["token"]
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def get(self, path: str, accept: str = "application/json") -> Any:
        """Return the decoded answer."""
        headers = {"Accept": accept, "Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self._url + path, headers=headers)  # noqa: S310 - a server of our own
        with urllib.request.urlopen(request, context=self._context) as answer:  # noqa: S310
            return json.load(answer)


def record(server: Server) -> dict[tuple[str, str], Any]:
    """Return (group, kind) -> columns."""
    found = {}
    for group, path in versions(server):
        for resource in server.get(path)["resources"]:
            if "/" not in resource["name"] and "list" in resource["verbs"]:
                table = server.get(f"{path}/{resource['name']}?limit=1", TABLE)
                found[group, resource["kind"]] = table["columnDefinitions"]
    one = server.get("/apis/apps/v1/deployments?limit=1")["items"][0]["metadata"]
    scale = f"/apis/apps/v1/namespaces/{one['namespace']}/deployments/{one['name']}/scale"
    found["autoscaling", "Scale"] = server.get(scale, TABLE)["columnDefinitions"]
    return found


def versions(server: Server) -> Iterator[tuple[str, str]]:
    """Yield (group, path) of every version, in the order of discovery."""
    yield "", "/api/v1"
    for group in server.get("/apis")["groups"]:
        for version in group["versions"]:
            yield group["name"], f"/apis/{version['groupVersion']}"


def main() -> None:
    """Run from the command line."""
    columns = record(Server(Path(sys.argv[1])))
    lines = [
        json.dumps([*key, value], separators=(",", ":"), ensure_ascii=False)
        for key, value in sorted(columns.items())
    ]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
