"""Write the generated files; with --check, exit 1 if one is out of date.

They are the CRDs and RBAC objects in config/, also those of the chart, the schemas of the built-in kinds, the bill of
materials of the wheel, docs/configuration.md, and the schema of /status in docs/reference/.

python -m hack.generate [--check]
"""

import argparse
import difflib
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hack import bill_of_materials, configuration, protobuf_tables
from hack.schema import builtin
from vcsync.api import crd, names, rbac
from vcsync.status import document

ROOT = Path(__file__).resolve().parent.parent
CONFIG, DOCS = ROOT / "config", ROOT / "docs"
Files = Callable[[], Iterator[tuple[str, bytes]]]
DATA: Mapping[Path, Files] = {
    ROOT / "vcsync/apimachinery/schema": builtin.data_files,
    CONFIG: lambda: iter(
        [(bill_of_materials.FILE, bill_of_materials.of_lock((ROOT / "requirements.lock").read_text()))]
    ),
}
"""Folder of data files -> the function that generates them."""
DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.document,
    "reference/status.schema.json": document.schema_text,
}
"""Document in docs/ -> the function that generates it from the code."""
SAMPLE_SUPER_CLUSTER = "r1"
"""Name of the super cluster in config/deploy."""
CHART_FILES = "chart/files"
"""Folder of the chart, below config/, with generated files only."""


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print a diff and exit 1 if there is one"
    )
    options = parser.parse_args(arguments)
    differences = (check(CONFIG) + check_data(DATA)) if options.check else (write(CONFIG) + write_data(DATA))
    differences += protobuf_tables.check() if options.check else protobuf_tables.write()
    differences += check_documents(DOCS) if options.check else write_documents(DOCS)
    print(differences, end="")
    return 1 if options.check and differences else 0


def check(config: Path) -> str:
    """Return the difference between the files in `config` and the generated ones, as a unified diff."""
    wanted = dict(generated())
    stale = {path: "" for path in _existing(config) if path not in wanted}
    return "".join(_difference(config, path, text) for path, text in sorted((wanted | stale).items()))


def write(config: Path) -> str:
    """Write the generated files in `config`, remove stale ones, and return a line for each change."""
    wanted = dict(generated())
    lines = []
    for path in _existing(config):
        if path not in wanted:
            (config / path).unlink()
            lines.append(f"removed {path}\n")
    for path, text in wanted.items():
        target = config / path
        if _read(target) != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            lines.append(f"wrote {path}\n")
    return "".join(lines)


def check_data(folders: Mapping[Path, Files]) -> str:
    """Return a line for each data file that is out of date."""
    return "".join(f"{path} is out of date\n" for path, _ in _stale_data(folders))


def write_data(folders: Mapping[Path, Files]) -> str:
    """Write the data files and return a line for each that changed."""
    lines = []
    for path, content in _stale_data(folders):
        path.write_bytes(content)
        lines.append(f"wrote {path}\n")
    return "".join(lines)


def check_documents(docs: Path) -> str:
    """Return the difference between the documents in `docs` and the generated ones, as a unified diff."""
    return "".join(_difference(docs, path, make(), "docs") for path, make in DOCUMENTS.items())


def write_documents(docs: Path) -> str:
    """Write the documents and return a line for each that changed."""
    lines = []
    for path, make in DOCUMENTS.items():
        text = make()
        if _read(docs / path) != text:
            (docs / path).parent.mkdir(parents=True, exist_ok=True)
            (docs / path).write_text(text, encoding="utf-8")
            lines.append(f"wrote {path}\n")
    return "".join(lines)


def _stale_data(folders: Mapping[Path, Files]) -> Iterator[tuple[Path, bytes]]:
    for folder, made in folders.items():
        for name, content in made():
            path = folder / name
            if not path.exists() or _unpacked(path.read_bytes()) != _unpacked(content):
                yield path, content


def _unpacked(content: bytes) -> bytes:
    """Return the uncompressed content of a file, because zlib versions compress the same content differently."""
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def generated() -> Iterator[tuple[str, str]]:
    """Yield every generated file: its path below config/ and its text."""
    definitions = crd.crds()
    files = {f"{definition['spec']['names']['plural']}.yaml": [definition] for definition in definitions}
    yield from _folder("crd", "vcsync/api/specs.py and crd.py", files)
    for side in ("meta", "super", "tenant"):
        yield from _folder(f"rbac/{side}", "vcsync/api/rbac.py", _rbac(side))
    gateway = {
        "namespace.yaml": [rbac.system_namespace()],
        f"{names.ROLE_GATEWAY}.yaml": rbac.gateway_manifests(),
    }
    yield from _folder("rbac/external", "vcsync/api/rbac.py", gateway)
    reader = {"reader.yaml": rbac.reader_manifests([rbac.EVERYTHING])}
    yield from _folder("rbac/external-readable", "vcsync/api/rbac.py", reader)
    usage = {"metrics.yaml": rbac.metrics_access()}
    yield from _folder("rbac/tenant-metrics", "vcsync/api/rbac.py", usage)
    access = {
        "super-credentials.yaml": rbac.super_credentials_access(SAMPLE_SUPER_CLUSTER),
        "stream-credentials.yaml": rbac.stream_credentials_access(SAMPLE_SUPER_CLUSTER),
    }
    yield from _folder(f"rbac/meta-{SAMPLE_SUPER_CLUSTER}", "vcsync/api/rbac.py", access)
    yield from _chart(files)


def _chart(definitions: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    """Yield the files that the chart installs as they are.

    Definitions and namespaces stay when the chart is uninstalled, because objects of tenants would go with them. Helm makes
    the namespace of the release itself.
    """
    for name, documents in definitions.items():
        yield f"{CHART_FILES}/crd/{name}", _yaml("vcsync/api/specs.py and crd.py", _kept(documents))
    system = rbac.system_namespace()["metadata"]["name"]
    for name, documents in _rbac("meta").items():
        others = [each for each in documents if each["metadata"]["name"] != system]
        made = _kept(others) if name == "namespace.yaml" else documents
        yield f"{CHART_FILES}/rbac/{name}", _yaml("vcsync/api/rbac.py", made)


def _kept(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return manifests whose objects Helm does not delete."""
    return [
        {
            **each,
            "metadata": {
                **each["metadata"],
                "annotations": {**each["metadata"].get("annotations", {}), "helm.sh/resource-policy": "keep"},
            },
        }
        for each in documents
    ]


def _rbac(side: rbac.Side) -> dict[str, list[dict[str, Any]]]:
    files = {"namespace.yaml": [rbac.system_namespace()]}
    for role in names.META_ACCOUNTS:
        if (side, role) in rbac.GRANTS:
            files[f"{role}.yaml"] = rbac.role_manifests(side, role)
    if side == "meta":
        files["namespace.yaml"] += [
            rbac.virtual_cluster_namespace(),
            rbac.usage_namespace(),
            rbac.drift_namespace(),
            rbac.definitions_namespace(),
            rbac.endpoints_namespace(),
        ]
        files["status-readers.yaml"] = rbac.status_readers()
        files["admission.yaml"] = rbac.admission_policies()
    elif side == "tenant":
        files["admission.yaml"] = rbac.tenant_admission()
        files["metrics.yaml"] = [rbac.metrics_reader()]
    return files


def _folder(folder: str, source: str, files: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    for name, documents in files.items():
        yield f"{folder}/{name}", _yaml(source, documents)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }
    yield f"{folder}/kustomization.yaml", _yaml(source, [kustomization])


def _yaml(source: str, documents: list[dict[str, Any]]) -> str:
    header = f"# Generated from {source} by `python -m hack.generate`; do not edit.\n"
    return header + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes equal values in full (no anchors) and indents lists, as people write Kubernetes YAML."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _existing(config: Path) -> list[str]:
    """Return the files in the folders that hold generated files only."""
    return sorted(
        path.relative_to(config).as_posix()
        for folder in ("crd", "rbac", CHART_FILES)
        for path in (config / folder).rglob("*.yaml")
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _difference(config: Path, path: str, text: str, shown: str = "config") -> str:
    return "".join(
        difflib.unified_diff(
            _read(config / path).splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"{shown}/{path}",
            f"{shown}/{path} (generated)",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
