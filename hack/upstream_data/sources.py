"""The objects in the files of Kubernetes' modules, read from Go's module cache.

`go mod download` puts a module into the cache if it is not there. Nothing of it is copied into the repository.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hack.testbed.binaries import find_go

MODULE = Path(__file__).parent.parent / "testbed" / "modules" / "kubernetes"
"""The Go module that names the versions."""
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "k8s.io/api": ("testdata/HEAD",),
    "k8s.io/kubernetes": (
        "hack/testdata",
        "test/fixtures",
        "cluster/addons",
        "test/e2e/testing-manifests",
        "cluster/gce",
        "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata",
        "test/e2e/dra/test-driver/deploy",
        "test/images",
        "test/integration/scheduler_perf",
        "test/kubemark",
    ),
    "k8s.io/apiextensions-apiserver": ("artifacts", "examples"),
    "k8s.io/cli-runtime": ("artifacts",),
    "k8s.io/kube-aggregator": ("artifacts",),
    "k8s.io/pod-security-admission": (
        "test/testdata/baseline/v1.35",
        "test/testdata/restricted/v1.35",
    ),
    "k8s.io/sample-apiserver": ("artifacts",),
}
"""Module -> the folders with its samples and test data."""
SUFFIXES = (".json", ".yaml", ".yml")


class Document(NamedTuple):
    """One object of a file; `source`: module, path and position in the file."""

    source: str
    content: dict[str, Any]


def modules(names: Iterable[str] = tuple(FOLDERS)) -> dict[str, Path]:
    """Return the folder of each module in the module cache.

    Raises:
        CalledProcessError: `go` cannot download a module.
    """
    command = [str(find_go()), "mod", "download", "-json", *names]
    output = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=True).stdout
    return {each["Path"]: Path(each["Dir"]) for each in _values(output)}


def _values(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that a text contains one after the other."""
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        value, end = decoder.raw_decode(rest)
        yield value
        rest = rest[end:].lstrip()


def documents(found: Mapping[str, Path]) -> Iterator[Document]:
    """Yield the objects of all files; `found`: module -> its folder."""
    for module, folders in FOLDERS.items():
        for folder in folders:
            root = found[module] / folder
            files = sorted(each for each in root.rglob("*") if each.suffix in SUFFIXES)
            for file in _once(files):
                name = f"{module.removeprefix('k8s.io/')}/{file.relative_to(found[module])}"
                for at, content in enumerate(objects(file.read_text(errors="replace"))):
                    yield Document(f"{name}#{at}", content)


def _once(files: Iterable[Path]) -> list[Path]:
    """Return the files without those that repeat another one of the same name in JSON."""
    known = set(files)
    return [each for each in files if each.suffix == ".json" or each.with_suffix(".json") not in known]


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in the text of a file: documents, and the items of lists. A template has none."""
    try:
        values = list(yaml.load_all(text, Loader=_Plain))
    except yaml.YAMLError:
        return []
    found: list[dict[str, Any]] = []
    for each in values:
        if isinstance(each, dict) and each.get("kind") == "List":
            found += [item for item in each.get("items") or () if isinstance(item, dict)]
        elif isinstance(each, dict):
            found.append(each)
    return [each for each in found if isinstance(each.get("kind"), str)]


class _Plain(yaml.CSafeLoader):
    """Reads times as texts, as Kubernetes does."""


_Plain.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
