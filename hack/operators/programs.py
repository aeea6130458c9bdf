"""Builds programs and test programs of operators from their Go modules, and keeps them in the test bed's cache.

Nothing of the modules is copied into the repository. `go mod download` checks them against Go's database of checksums.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from hack.operators.catalog import Manifests, Operator
from hack.testbed import ensure
from hack.testbed.binaries import BuildError, cache_root, find_go, tail

Progress = Callable[[str], None]


def folder_of(operator: Operator) -> Path:
    """Return the folder of an operator in the cache."""
    return cache_root() / f"operator-{operator.name}-{operator.version}"


def slug(package: str) -> str:
    """Return the name of a package as that of a file."""
    return package.replace("/", "-")


def prepare(operator: Operator, report: Progress) -> Path:
    """Copy an operator's module into the cache unless it is there. Return the copy, which the tests may write to.

    Raises:
        BuildError: the module or one that it needs cannot be downloaded, or its manifests are incomplete.
    """
    source = folder_of(operator) / "source"
    if source.exists():
        return source
    report(f"{operator.name}: downloading {operator.module}@{operator.version}")
    unfinished = folder_of(operator) / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    found = _go("mod", "download", "-json", f"{operator.module}@{operator.version}", folder=Path("/"))
    _copy(Path(json.loads(found)["Dir"]), unfinished)
    for place, manifests in operator.copied.items():
        _copy_manifests(manifests, unfinished, unfinished / place)
    for file, kustomization in operator.kustomized.items():
        kubectl = str(ensure(("kubectl",), report)["kubectl"])
        (unfinished / file).parent.mkdir(parents=True, exist_ok=True)
        (unfinished / file).write_text(
            _run([kubectl, "kustomize", kustomization], unfinished), encoding="utf-8"
        )
    unfinished.rename(source)
    return source


def program(operator: Operator, package: str, report: Progress) -> Path:
    """Return the test program of a package. It is built unless it is in the cache.

    Raises:
        BuildError: it does not build.
    """
    flags = ("-tags", operator.tags) if operator.tags else ()
    return _built(operator, package, f"{slug(package)}.test", ("test", "-c", "-vet=off", *flags), report)


def command(operator: Operator, package: str, report: Progress) -> Path:
    """Return the program whose main package this is. It is built unless it is in the cache.

    Raises:
        BuildError: it does not build.
    """
    return _built(operator, package, slug(package), ("build", "-buildvcs=false"), report)


def _built(operator: Operator, package: str, name: str, verb: tuple[str, ...], report: Progress) -> Path:
    source, built = prepare(operator, report), folder_of(operator) / name
    if built.exists():
        return built
    report(f"{operator.name}: building {name}")
    unfinished, log = built.with_suffix(".unfinished"), built.with_suffix(".build.log")
    build = [str(find_go(report)), *verb, "-ldflags=-s -w", "-o", str(unfinished), f"./{package}"]
    with log.open("wb") as output:
        run = subprocess.run(
            build, cwd=source, env=_environment(), stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if run.returncode != 0 or not unfinished.exists():
        raise BuildError(f"{operator.name}: {package} does not build: {tail(log, 1)}; log: {log}")
    unfinished.rename(built)
    return built


def _copy(module: Path, target: Path) -> None:
    """Copy a module, whose files in Go's cache cannot be written."""
    shutil.copytree(module, target)
    for parent, _, files in os.walk(target):
        Path(parent).chmod(0o755)
        for file in files:
            path = Path(parent) / file
            path.chmod(path.stat().st_mode | 0o200)


def _copy_manifests(manifests: Manifests, source: Path, target: Path) -> None:
    _go("mod", "download", manifests.module, folder=source)
    module = Path(_go("list", "-m", "-f", "{{.Dir}}", manifests.module, folder=source).strip())
    found = [
        each
        for each in sorted(module.glob(manifests.files))
        if each.is_file() and each.name != manifests.without
    ]
    if not found:
        raise BuildError(f"{manifests.module} has no {manifests.files}")
    target.mkdir(parents=True)
    for each in found:
        shutil.copyfile(each, target / each.name)


def _go(*arguments: str, folder: Path) -> str:
    return _run([str(find_go()), *arguments], folder)


def _run(command: list[str], folder: Path) -> str:
    run = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        lines = (run.stderr or run.stdout).strip().splitlines()
        raise BuildError(f"{' '.join(command[1:])}: {lines[-1] if lines else f'exit code {run.returncode}'}")
    return run.stdout


def _environment() -> dict[str, str]:
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    return {**os.environ, **settings}
