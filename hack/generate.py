"""Write the generated part of config/ (CRDs, RBAC); with --check, exit 1 if anything is out of date.

python -m hack.generate [--check]
"""

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from vcsync.api import crd, names, rbac

CONFIG = Path(__file__).resolve().parent.parent / "config"
SAMPLE_SUPER_CLUSTER = "r1"
"""The super cluster that config/deploy speaks of."""


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print a diff and exit 1 if there is one"
    )
    options = parser.parse_args(arguments)
    differences = check(CONFIG) if options.check else write(CONFIG)
    print(differences, end="")
    return 1 if options.check and differences else 0


def check(config: Path) -> str:
    """Return the difference between what stands in `config` and what belongs there, as a unified diff."""
    wanted = dict(generated())
    stale = {path: "" for path in _standing(config) if path not in wanted}
    return "".join(_difference(config, path, text) for path, text in sorted((wanted | stale).items()))


def write(config: Path) -> str:
    """Write what belongs in `config` and return a line for each file that changed."""
    wanted = dict(generated())
    lines = []
    for path in _standing(config):
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


def generated() -> Iterator[tuple[str, str]]:
    """Yield every generated file: its path below config/ and its text."""
    definitions = crd.crds()
    files = {f"{definition['spec']['names']['plural']}.yaml": [definition] for definition in definitions}
    yield from _folder("crd", "vcsync/api/specs.py and crd.py", files)
    for side in ("meta", "super", "tenant"):
        yield from _folder(f"rbac/{side}", "vcsync/api/rbac.py", _rbac(side))
    access = {"super-credentials.yaml": rbac.super_credentials_access(SAMPLE_SUPER_CLUSTER)}
    yield from _folder(f"rbac/meta-{SAMPLE_SUPER_CLUSTER}", "vcsync/api/rbac.py", access)


def _rbac(side: rbac.Side) -> dict[str, list[dict[str, Any]]]:
    files = {"namespace.yaml": [rbac.system_namespace()]}
    for role in names.ROLES:
        if (side, role) in rbac.GRANTS:
            files[f"{role}.yaml"] = rbac.role_manifests(side, role)
    if side == "meta":
        files["namespace.yaml"].append(rbac.virtual_cluster_namespace())
        files["admission.yaml"] = rbac.admission_policies()
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
    """Writes equal values out in full (no anchors) and lists indented, as people write Kubernetes YAML."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _standing(config: Path) -> list[str]:
    """Return the files in the folders that hold generated files only."""
    return sorted(
        path.relative_to(config).as_posix()
        for folder in ("crd", "rbac")
        for path in (config / folder).rglob("*.yaml")
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _difference(config: Path, path: str, text: str) -> str:
    return "".join(
        difflib.unified_diff(
            _read(config / path).splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"config/{path}",
            f"config/{path} (generated)",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
