"""Write which members of built-in objects are left out and which are always there, from the public Go types.

    python -m hack.shapes FOLDER_OF_K8S_IO_MODULES

The folder holds `api@...` and `apimachinery@...`, as in Go's module cache. The result is
vcsync/controlplane/kinds/shapes.json; vcsync/controlplane/kinds/canonical.py says what its codes mean.
"""

import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "vcsync" / "controlplane" / "kinds" / "shapes.json"
ROOTS = {
    "admissionregistration/v1": (
        "admissionregistration.k8s.io",
        (
            "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration "
            "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
            "ValidatingWebhookConfiguration"
        ),
    ),
    "apps/v1": ("apps", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    "autoscaling/v2": ("autoscaling", "HorizontalPodAutoscaler"),
    "autoscaling/v1": ("autoscaling", "Scale"),
    "batch/v1": ("batch", "CronJob Job"),
    "certificates/v1": ("certificates.k8s.io", "CertificateSigningRequest"),
    "certificates/v1beta1": ("certificates.k8s.io", "ClusterTrustBundle PodCertificateRequest"),
    "coordination/v1": ("coordination.k8s.io", "Lease"),
    "coordination/v1beta1": ("coordination.k8s.io", "LeaseCandidate"),
    "core/v1": (
        "",
        (
            "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
            "PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret "
            "Service ServiceAccount"
        ),
    ),
    "discovery/v1": ("discovery.k8s.io", "EndpointSlice"),
    "flowcontrol/v1": ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"),
    "networking/v1": ("networking.k8s.io", "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR"),
    "node/v1": ("node.k8s.io", "RuntimeClass"),
    "policy/v1": ("policy", "PodDisruptionBudget"),
    "rbac/v1": ("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    "resource/v1": ("resource.k8s.io", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    "resource/v1beta2": ("resource.k8s.io", "DeviceTaintRule"),
    "scheduling/v1": ("scheduling.k8s.io", "PriorityClass"),
    "storage/v1": (
        "storage.k8s.io",
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    "storagemigration/v1beta1": ("storagemigration.k8s.io", "StorageVersionMigration"),
}
SCALARS = {"string": '""', "bool": "false", "float64": "0"} | {
    f"{sign}int{size}": "0" for sign in ("", "u") for size in ("", "8", "16", "32", "64")
}
OPAQUE = {
    "runtime.RawExtension",
    "metav1.FieldsV1",
    "FieldsV1",
    "runtime.Unknown",
    "apiextensionsv1.JSON",
    "runtime.Object",
}
TIMES = {"metav1.Time": "T", "Time": "T", "metav1.MicroTime": "U", "MicroTime": "U"}

Types = dict[str, str | list[tuple[str, str, str]]]


def parse(text: str) -> Types:
    """Return a package's types: a struct's fields (name, Go type, JSON tag), or what an alias stands for."""
    found: Types = {}
    for match in re.finditer(r"^type (\w+) (struct \{\n(.*?)^\}|[^\n{]+)", text, re.M | re.S):
        if match[3] is None and not match[2].startswith("struct"):
            found[match[1]] = match[2].split("//")[0].strip()
            continue
        fields = re.findall(
            r'^\t(?:(\w+)[ \t]+)?([\w.*\[\]]+)[ \t]+`[^`\n]*json:"([^"]*)"', match[3] or "", re.M
        )
        found[match[1]] = [(name or kind, kind, tag) for name, kind, tag in fields]
    for name in re.findall(r"^\t(\w+) +(?:string|struct)$", text, re.M):
        found.setdefault(name, "string")
    return found


def simple_reference(kind: str) -> str | None:
    """Return the reference of a type that is known by its name; None: it has to be looked up."""
    if kind.endswith("resource.Quantity"):
        return "Q"
    if kind in OPAQUE:
        return "R"
    if kind in SCALARS or kind.endswith("IntOrString") or kind == "[]byte":
        return "I" if "int" in kind else ""
    return TIMES.get(kind)


def simple_shape(kind: str) -> str:
    """Return the shape of a type that is known by its name; empty: it has to be looked up."""
    if kind in SCALARS:
        return f"scalar:{SCALARS[kind]}"
    known = {"[]byte": 'scalar:""'} | dict.fromkeys([*OPAQUE, *TIMES], "opaque")
    if kind in known:
        return known[kind]
    ends = {"resource.Quantity": 'scalar:"0"', "IntOrString": "scalar:0"}
    starts = {"[]": "list", "map[": "map"}
    return next((shape for start, shape in starts.items() if kind.startswith(start)), "") or next(
        (shape for end, shape in ends.items() if kind.endswith(end)), ""
    )


class Shapes:
    """Codes of the fields of every type that objects consist of."""

    def __init__(self, modules: Path) -> None:
        self.packages: dict[str, Types] = {}
        api = max(modules.glob("api@*"))
        machinery = max(modules.glob("apimachinery@*"))
        for package in {*ROOTS, "core/v1"}:
            files = sorted((api / package).glob("types*.go"))
            self.packages[package] = parse("\n".join(each.read_text() for each in files))
        self.packages["meta/v1"] = parse((machinery / "pkg/apis/meta/v1/types.go").read_text())
        self.codes: dict[str, dict[str, str]] = {}

    def locate(self, package: str, name: str) -> tuple[str, str]:
        """Return the package and name of a type as written in a package."""
        if "." in name:
            prefix, name = name.split(".")
            package = {"metav1": "meta/v1", "v1": "core/v1", "corev1": "core/v1", "core": "core/v1"}.get(
                prefix, prefix
            )
        return package, name

    def reference(self, package: str, kind: str) -> str:
        """Return what a value's type means to us: `` a scalar, `I` an integer, `Q` a quantity, ... or a type's key."""
        kind = kind.lstrip("*")
        simple = simple_reference(kind)
        if simple is not None:
            return simple
        if kind.startswith(("[]", "map[")):
            inner = self.reference(package, kind.split("]", 1)[1])
            return f"{{{inner}" if kind.startswith("map[") and "." in inner else inner
        package, name = self.locate(package, kind)
        target = self.packages.get(package, {}).get(name, "string")
        return self.reference(package, target) if isinstance(target, str) else self.struct(package, name)

    def shape(self, package: str, kind: str) -> str:
        """Return `scalar:ZERO`, `list`, `map`, `struct` or `opaque` for a type."""
        simple = simple_shape(kind)
        if simple:
            return simple
        place, name = self.locate(package, kind)
        target = self.packages.get(place, {}).get(name)
        if isinstance(target, str):
            return self.shape(place, target)
        unknown = 'scalar:""' if name in ("UID", "NodeName") else "opaque"
        return unknown if target is None else "struct"

    def struct(self, package: str, name: str) -> str:
        """Add a struct's fields and return its key."""
        key = f"{package}.{name}"
        if key in self.codes:
            return key
        codes: dict[str, str] = {}
        self.codes[key] = codes
        fields = self.packages[package][name]
        for field, kind, tag in fields if isinstance(fields, list) else ():
            json_name, *options = tag.split(",")
            if not json_name and ("inline" in options or field == kind or "." in kind):
                place, inlined = self.locate(package, kind)
                if inlined not in ("TypeMeta",):
                    codes.update(self.codes[self.struct(place, inlined)])
                continue
            if json_name in ("-", "metadata") and inlined_metadata(json_name, kind):
                continue
            codes[json_name or field] = self.code(package, kind, options)
        return key

    def code(self, package: str, kind: str, options: list[str]) -> str:
        """Return one field's code."""
        reference = self.reference(package, kind)
        optional = "omitempty" in options
        if kind.startswith("*"):
            mode = "?" if optional else "N"
        else:
            shape = self.shape(package, kind)
            if shape.startswith("scalar:"):
                zero = shape[7:]
                quantity = kind.endswith(("resource.Quantity", "IntOrString"))
                mode = "-" if optional and not quantity else f"={zero}"
            elif shape in ("list", "map"):
                mode = "-" if optional else "n"
            elif shape == "struct":
                mode = "z" if "omitzero" in options else "+"
            else:
                mode = self.opaque_mode(kind, options)
        return f"{mode} {reference}".rstrip()

    @staticmethod
    def opaque_mode(kind: str, options: list[str]) -> str:
        """Return the mode of free-form JSON or a time; a time is left out only where it says so."""
        left_out = "omitzero" in options or ("omitempty" in options and kind not in TIMES)
        return "?" if left_out else "N"


def inlined_metadata(json_name: str, kind: str) -> bool:
    """Whether a field is no part of the shape."""
    return json_name == "-" or kind == "metav1.ListMeta"


def main() -> None:
    """Write the file."""
    shapes = Shapes(Path(sys.argv[1]))
    roots = {
        f"{group}/{kind}": shapes.struct(package, kind)
        for package, (group, kinds) in ROOTS.items()
        for kind in kinds.split()
    }
    names = {key: f"{number:x}" for number, key in enumerate(sorted(shapes.codes))}

    def short(code: str) -> str:
        mode, _, reference = code.partition(" ")
        of_map = "{" if reference.startswith("{") else ""
        reference = reference.removeprefix("{")
        return f"{mode} {of_map}{names.get(reference, reference)}".rstrip()

    types = {
        names[key]: {field: short(code) for field, code in fields.items()}
        for key, fields in sorted(shapes.codes.items())
    }
    data = {"roots": {key: names[value] for key, value in sorted(roots.items())}, "types": types}
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
