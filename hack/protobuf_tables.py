"""Write the table of API types that the protobuf codec reads: fields, numbers, JSON names, Go types.

The facts come from the public `generated.proto` files and Go types of the k8s.io modules, at the versions that the
test bed pins. `go mod download` fetches modules that are not in Go's module cache. The check needs neither Go nor the
cache: the table's first line records digests of this generator, of the modules' versions and of the table.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "vcsync" / "apimachinery" / "wire" / "types.jsonl"
PINS = ROOT / "hack" / "testbed" / "modules" / "kubernetes" / "go.mod"

MODULES = {
    "k8s.io/api": "",
    "k8s.io/apimachinery": "pkg",
    "k8s.io/apiextensions-apiserver": "pkg/apis",
    "k8s.io/kube-aggregator": "pkg/apis",
}
"""Go module -> the folder in it that contains the API packages."""

SKIPPED = re.compile(
    r"admission/|apidiscovery/|apiserverinternal/|apps/v1beta|extensions/v1beta1|imagepolicy/|testapigroup/"
    r"|batch/v1beta1|policy/v1beta1|discovery/v1beta1|events/v1beta1|node/v1(alpha1|beta1)|rbac/v1(alpha1|beta1)"
    r"|flowcontrol/v1beta|v1alpha1/|apiregistration/v1beta1|networking/v1beta1|authorization/v1beta1"
    r"|authentication/v1beta1|storage/v1beta1|runtime/schema"
)
"""Packages that a server of this version serves neither by default nor with its beta APIs enabled."""

SHORT = (
    ("k8s.io.api.", ""),
    ("k8s.io.apimachinery.pkg.apis.", ""),
    ("k8s.io.apimachinery.pkg.api.", ""),
    ("k8s.io.apimachinery.pkg.util.", ""),
    ("k8s.io.apimachinery.pkg.", ""),
    ("k8s.io.apiextensions_apiserver.pkg.apis.", ""),
    ("k8s.io.kube_aggregator.pkg.apis.", ""),
)
MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
PROTO_FIELD = re.compile(
    r"^  (?:(optional|repeated|required) ([\w.]+)|map<(\w+), ([\w.]+)>) (\w+) = (\d+);", re.M
)
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
ALIAS = re.compile(r"^type (\w+) (?!struct|interface|func)=? ?([^\s{]+)", re.M)
GO_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?([^\s`]+)[ \t]+`([^`]*)`", re.M)
TAG = re.compile(r'(\w+):"([^"]*)"')
GROUP = re.compile(r'GroupName += "([^"]*)"|const GroupName = "([^"]*)"')


class SourcesMissing(Exception):
    """The Go modules are not in the cache and cannot be downloaded."""


@dataclass
class Package:
    """One Go package with the messages of its proto file."""

    name: str
    proto: str
    group: str
    messages: dict[str, str] = field(default_factory=dict)
    structs: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def check() -> str:
    """Return the problems of the committed table, a line each; empty if there are none."""
    if not TABLE.exists():
        return f"{TABLE.relative_to(ROOT)}: missing; run python -m hack.generate\n"
    head, _, body = TABLE.read_text(encoding="utf-8").partition("\n")
    wanted = _stamps(body)
    wrong = [each for each, value in wanted.items() if json.loads(head).get(each) != value]
    name = TABLE.relative_to(ROOT)
    return "".join(
        f"{name}: {each} has changed since it was made; run python -m hack.generate\n" for each in wrong
    )


def write() -> str:
    """Write the table if it is out of date; return a line of report if it was."""
    if not check():
        return ""
    text = "\n".join(json.dumps(each, separators=(",", ":")) for each in lines(_packages())) + "\n"
    head = json.dumps(_stamps(text), separators=(",", ":"))
    TABLE.write_text(f"{head}\n{text}", encoding="utf-8")
    return f"wrote {TABLE.relative_to(ROOT)}\n"


def _stamps(body: str) -> dict[str, str]:
    pins = "\n".join(f"{module}@{version}" for module, version in sorted(_versions().items()))
    return {
        "generator": _digest(Path(__file__).read_text(encoding="utf-8")),
        "modules": _digest(pins),
        "table": _digest(body),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    """Return module -> version; all are released together with Kubernetes."""
    kubernetes = re.findall(r"k8s\.io/kubernetes v1\.(\S+)", PINS.read_text(encoding="utf-8"))[0]
    return dict.fromkeys(MODULES, f"v0.{kubernetes}")


def _packages() -> Iterator[Package]:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        raise SourcesMissing("no go on the PATH to fetch the k8s.io modules with")
    for module, version in _versions().items():
        command = [go, "mod", "download", "-json", f"{module}@{version}"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "GOFLAGS": ""}
        )
        if answer.returncode:
            raise SourcesMissing(f"go mod download {module}@{version}: {answer.stderr or answer.stdout}")
        folder = Path(json.loads(answer.stdout)["Dir"])
        for path in sorted((folder / MODULES[module]).rglob("generated.proto")):
            if not SKIPPED.search(f"{path.parent.relative_to(folder).as_posix()}/"):
                yield _package(path)


def _package(path: Path) -> Package:
    proto = path.read_text(encoding="utf-8")
    name = re.findall(r"^package (\S+);", proto, re.M)[0]
    source = "\n".join(
        each.read_text(encoding="utf-8")
        for each in sorted(path.parent.glob("*.go"))
        if not re.search(r"_test\.go$|generated|conversion|defaults", each.name)
    )
    group = GROUP.search(source)
    return Package(
        name=_short(name),
        proto=name,
        group=(group[1] or group[2] or "") if group else "-",
        messages=dict(MESSAGE.findall(proto)),
        structs=dict(STRUCT.findall(source)),
        aliases=dict(ALIAS.findall(source)),
    )


def lines(packages: Iterator[Package]) -> Iterator[Any]:
    """Yield a line for each package and each of its messages.

    A package: `[name, group]`. A message: `[package.Name, code, fields]` with the codes `k` (a kind: it has
    apiVersion and kind), `l` (its JSON is the list itself), empty (a plain struct). A field:
    `[number, type, JSON name, flags, Go type]`; a list's type ends in `[]`, a map's is `{key}value`; flags: `p`
    pointer, `o` omitempty, `z` omitzero, `i` inlined in JSON.
    """
    for package in packages:
        yield [package.name, package.group]
        for name, body in sorted(package.messages.items()):
            struct = package.structs.get(name, "")
            kind = "k" if re.search(r"^\s+(\w+\.)?TypeMeta\s+`json:\",inline\"`", struct, re.M) else ""
            code = "l" if package.aliases.get(name, "").startswith("[]") else kind
            yield [f"{package.name}.{name}", code, list(_fields(package, struct, body))]


def _fields(package: Package, struct: str, body: str) -> Iterator[list[Any]]:
    facts = _go_fields(package, struct)
    for label, plain, key, value, name, number in PROTO_FIELD.findall(body):
        kind = f"{{{key}}}{_type(package, value)}" if key else _type(package, plain)
        json_name, flags, go_type = facts.get(int(number), (name, "", ""))
        yield [int(number), kind + ("[]" if label == "repeated" else ""), json_name, flags, go_type]


def _go_fields(package: Package, struct: str) -> dict[int, tuple[str, str, str]]:
    """Return field number -> (JSON name, flags, Go type in the form of Go's messages) of a Go struct."""
    fields = {}
    for _, go_type, text in GO_FIELD.findall(struct):
        tags = dict(TAG.findall(text))
        if "protobuf" not in tags or "json" not in tags:
            continue
        name, *options = tags["json"].split(",")
        flags = "p" if go_type.startswith("*") else ""
        flags += "".join(
            code
            for code, option in zip("ozi", ("omitempty", "omitzero", "inline"), strict=True)
            if option in options
        )
        fields[int(tags["protobuf"].split(",")[1])] = (name, flags, _go_type(package, go_type.lstrip("*")))
    return fields


def _go_type(package: Package, text: str) -> str:
    """Return a Go type as reflection names it: with the last part of its package's path."""
    own = package.name.rpartition("/")[2]

    def named(match: re.Match[str]) -> str:
        # Import aliases contain the version, for example metav1 and apiv1.
        word = re.sub(r"^[a-z]*(v\d\w*)\.", r"\1.", match[0])
        return word if "." in word or word[0].islower() else f"{own}.{word}"

    return re.sub(r"[A-Za-z_][\w.]*", named, text)


def _type(package: Package, name: str) -> str:
    if name.startswith("."):
        return _short(name[1:])
    return name if name[0].islower() else f"{package.name}.{name}"


def _short(name: str) -> str:
    """Shorten a proto name: `k8s.io.api.core.v1.Pod` to `core/v1.Pod`."""
    for prefix, replacement in SHORT:
        if name.startswith(prefix):
            name = replacement + name.removeprefix(prefix)
            break
    return re.sub(r"^([a-z]\w*)\.(v\d\w*)", r"\1/\2", name)
