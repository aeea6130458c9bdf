"""vcsync's CustomResourceDefinitions, generated from the types in `specs` and a table of names, columns and rules."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, inspect

from vcsync.api import names, policy_specs, resources, specs
from vcsync.api.fields import MAX_QUANTITY_LENGTH, Quantity, Rule
from vcsync.kube.resources import Resource

Schema = dict[str, Any]

_EMBEDDED: Schema = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
"""Schema of an object of any kind within another one."""
_READY = '.status.conditions[?(@.type=="{}")].status'


class Column(Struct, frozen=True):
    """A column of `kubectl get`. Columns of priority 1 appear with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


class Definition(Struct, frozen=True, kw_only=True):
    """The parts of a CRD besides the fields of its spec and status."""

    resource: Resource
    short_names: tuple[str, ...]
    description: str
    spec: type[Struct]
    status: type[Struct] | None
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    status_rules: tuple[Rule, ...] = ()


_AGE = Column("Age", ".metadata.creationTimestamp", "date")

DEFINITIONS: Final = (
    Definition(
        resource=resources.TENANTS,
        short_names=("te",),
        description="An owner of a control plane. Tenants share the pool and do not trust each other.",
        spec=specs.TenantSpec,
        status=specs.TenantStatus,
        columns=(
            Column("Control Plane", ".status.controlPlane"),
            Column("Phase", ".status.phase"),
            Column("Ready", _READY.format("Ready")),
            Column("Weight", ".status.weight", "integer"),
            Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1),
            Column(
                "Quota",
                ".status.resourceQuota.fullest",
                priority=1,
                description="The resource of which the largest share of the tenant's quota is used.",
            ),
            Column("Template", ".spec.template", priority=1),
            Column("Endpoint", ".status.endpoint", priority=1),
            Column("ClusterNamespace", ".status.clusterNamespace", priority=1),
            _AGE,
        ),
        rules=(
            Rule(
                f"!self.metadata.name.contains('.') && size(self.metadata.name) <= {names.MAX_TENANT_NAME_LENGTH}",
                "metadata.name becomes part of namespace names: choose one without dots, of at most "
                f"{names.MAX_TENANT_NAME_LENGTH} characters",
            ),
            Rule(
                "!(self.metadata.name in ['all', 'system'])",
                "metadata.name all and system are reserved: choose another name",
            ),
            Rule(
                "!has(oldSelf.spec.controlPlane) || has(self.spec.controlPlane) && "
                "has(self.spec.controlPlane.embedded) == has(oldSelf.spec.controlPlane.embedded) && "
                "has(self.spec.controlPlane.external) == has(oldSelf.spec.controlPlane.external)",
                "spec.controlPlane cannot change from one kind to another, nor be removed: make a new Tenant",
                ".spec.controlPlane",
            ),
            Rule(
                "!has(self.spec.resourceQuota) || !has(self.spec.controlPlane) || !has(self.spec.controlPlane.external)",
                "spec.resourceQuota is enforced in embedded control planes only, because writes to an external one need not "
                "pass vcsync: remove it, and set ResourceQuotas there",
                ".spec.resourceQuota",
            ),
            Rule(
                "!has(self.spec.network) || !has(self.spec.controlPlane) || !has(self.spec.controlPlane.external)",
                "spec.network describes a network of an embedded control plane, and external ones have none: remove it",
                ".spec.network",
            ),
            Rule(
                "has(self.spec.network) == has(oldSelf.spec.network) && "
                "(!has(self.spec.network) || self.spec.network == oldSelf.spec.network)",
                "spec.network is used once, when the control plane is made, and cannot change: make a new Tenant",
                ".spec.network",
            ),
        ),
    ),
    Definition(
        resource=resources.TENANT_TEMPLATES,
        short_names=("tt",),
        description="Settings for all tenants whose Tenants name it in spec.template.",
        spec=specs.TenantTemplateSpec,
        status=None,
        columns=(
            Column(
                "Generation", ".metadata.generation", "integer", description="What Tenants show as applied."
            ),
            Column("Weight", ".spec.weight", "integer"),
            Column("CPU", ".spec.quota.cpu"),
            Column("Memory", ".spec.quota.memory"),
            Column("Pods", ".spec.quota.pods"),
            _AGE,
        ),
    ),
    Definition(
        resource=resources.TENANT_POLICIES,
        short_names=("tp",),
        description="Rules of the operator for all tenants or some of them.",
        spec=policy_specs.TenantPolicySpec,
        status=policy_specs.TenantPolicyStatus,
        columns=(
            Column("Tenants", ".status.selectedTenants", "integer"),
            Column("Accepted", _READY.format("Accepted")),
            Column("Reason", '.status.conditions[?(@.type=="Accepted")].reason', priority=1),
            _AGE,
        ),
    ),
    Definition(
        resource=resources.VIRTUAL_CLUSTERS,
        short_names=("vc",),
        description="A tenant's control plane, with the settings that syncers and schedulers read.",
        spec=specs.VirtualClusterSpec,
        status=specs.VirtualClusterStatus,
        columns=(
            Column("Tenant", ".spec.tenant"),
            Column("Phase", ".status.phase"),
            Column("ClusterVersion", ".spec.clusterVersionName", priority=1),
            Column("ClusterNamespace", ".status.clusterNamespace", priority=1),
            _AGE,
        ),
        rules=(
            Rule(
                "!self.metadata.name.contains('.') && size(self.metadata.name) <= 54",
                "metadata.name becomes part of namespace names: choose a name without dots, of at most 54 "
                "characters",
            ),
        ),
        status_rules=(
            Rule(
                "!has(oldSelf.phase) || has(self.phase)",
                "status.phase cannot be removed once it is set: set it to a phase",
                ".phase",
            ),
            Rule(
                "!has(oldSelf.clusterNamespace) || oldSelf.clusterNamespace == '' "
                "|| has(self.clusterNamespace)",
                "status.clusterNamespace is part of the names of the tenant's objects and cannot be removed: keep it",
                ".clusterNamespace",
            ),
        ),
    ),
    Definition(
        resource=resources.SUPER_CLUSTERS,
        # `sc` is also the short name of StorageClass, which kubectl prefers. `sc.tenancy.x-k8s.io` and `super` always work.
        short_names=("sc", "super"),
        description="A cluster of the pool, in which tenants' Pods run. Affinity terms of tenants select by its labels.",
        spec=specs.SuperClusterSpec,
        status=specs.SuperClusterStatus,
        columns=(
            Column("Reachable", _READY.format("Reachable")),
            Column("Ready", _READY.format("Ready")),
            Column("Nodes", ".status.nodes.ready", "integer", description="Nodes that are ready."),
            Column("CPU", ".status.allocatable.cpu", description="Allocatable CPUs."),
            Column("FreeCPU", ".status.free.cpu"),
            Column("Memory", ".status.allocatable.memory", description="Allocatable memory."),
            Column("FreeMemory", ".status.free.memory"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            Column("Drain", ".spec.drain", "boolean"),
            Column("Version", ".status.version", priority=1),
            Column("Syncer", ".status.syncerIdentity", priority=1),
            Column("Heartbeat", ".status.heartbeatTime", "date", priority=1),
            _AGE,
        ),
        rules=(
            Rule(
                "self.metadata.name == self.spec.id",
                "spec.id must equal metadata.name and cannot change: set spec.id to the object's name",
                ".spec.id",
            ),
        ),
    ),
    Definition(
        resource=resources.NAMESPACE_PLACEMENTS,
        short_names=("npl",),
        description="An entry of the ledger: the super clusters that hold the slices of one tenant namespace.",
        spec=specs.NamespacePlacementSpec,
        status=specs.NamespacePlacementStatus,
        columns=(
            Column("Placed", _READY.format("Placed")),
            Column("Slices", ".spec.slices", "integer"),
            Column("Waiting", ".status.waiting", "integer"),
            Column("Placements", ".status.placements"),
            Column("Reason", '.status.conditions[?(@.type=="Placed")].reason', priority=1),
            _AGE,
        ),
        rules=(
            Rule(
                "self.metadata.name == self.spec.__namespace__",
                "spec.namespace must equal metadata.name: give the object the name of the tenant's namespace",
                ".spec.namespace",
            ),
            Rule(
                "self.spec.tenant == oldSelf.spec.tenant",
                "spec.tenant cannot change: delete this object and create a new one",
                ".spec.tenant",
            ),
        ),
    ),
)


def crds() -> list[dict[str, Any]]:
    """Return all CRDs as apiextensions.k8s.io/v1 objects, in the order of installation."""
    return [crd(definition) for definition in DEFINITIONS]


def crd(definition: Definition) -> dict[str, Any]:
    """Return one CRD as an apiextensions.k8s.io/v1 object."""
    resource = definition.resource
    spec = _struct(inspect.type_info(definition.spec), with_defaults=True)
    status: Schema = {}
    if definition.status is not None:
        shown = _struct(inspect.type_info(definition.status), with_defaults=False)
        status = {"status": shown | _rules(definition.status_rules)}
    schema: Schema = {
        "type": "object",
        "description": definition.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this representation."},
            "kind": {"type": "string", "description": "Type of this object."},
            "metadata": {"type": "object"},
            "spec": spec,
            **status,
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {"app.kubernetes.io/part-of": "vcsync"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "shortNames": list(definition.short_names),
                "categories": ["vcsync"],
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if status else {}),
                    "additionalPrinterColumns": [_column(column) for column in definition.columns],
                    "schema": {"openAPIV3Schema": schema | _rules(definition.rules)},
                }
            ],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        shown["description"] = column.description
    if column.priority:
        shown["priority"] = column.priority
    return shown


def _rules(rules: tuple[Rule, ...]) -> Schema:
    if not rules:
        return {}
    return {
        "x-kubernetes-validations": [
            {"rule": rule.rule, "message": rule.message}
            | ({"fieldPath": rule.field_path} if rule.field_path else {})
            for rule in rules
        ]
    }


def _schema(info: inspect.Type, *, with_defaults: bool) -> Schema:
    """Return the structural schema of one type."""
    if isinstance(info, inspect.Metadata) and (info.extra or {}).get("embedded"):
        return _EMBEDDED | (info.extra_json_schema or {})
    if isinstance(info, inspect.Metadata):
        described = _schema(info.type, with_defaults=with_defaults)
        return described | (info.extra_json_schema or {}) | _extensions(info.extra or {})
    if isinstance(info, inspect.UnionType):
        # An optional field: None in Python stands for an absent field.
        (present,) = (member for member in info.types if not isinstance(member, inspect.NoneType))
        return _schema(present, with_defaults=with_defaults)
    for kind, render in _CONTAINERS.items():
        if isinstance(info, kind):
            return render(info, with_defaults)
    for kind, leaf in _LEAVES.items():
        if isinstance(info, kind):
            return leaf(info)
    raise TypeError(f"no schema for {info}")


def _struct(info: inspect.Type, with_defaults: bool) -> Schema:
    assert isinstance(info, inspect.StructType)  # noqa: S101 - called with Structs only
    properties: Schema = {}
    for field in info.fields:
        schema = _schema(field.type, with_defaults=with_defaults)
        if with_defaults and (default := _default(field)) is not None:
            schema["default"] = default
        properties[field.encode_name] = schema
    shown: Schema = {"type": "object", "description": _first_line(info.cls)}
    if required := [field.encode_name for field in info.fields if field.required]:
        shown["required"] = required
    if properties:
        shown["properties"] = properties
    return shown


def _default(field: inspect.Field) -> Any:
    """Return the default that the API server fills in for an absent field; None if it has none or an empty one."""
    default = field.default
    if isinstance(default, Struct):
        # The API server fills in the defaults of its fields.
        return {}
    return default if isinstance(default, bool | int) or (isinstance(default, str) and default) else None


def _list(info: inspect.Type, with_defaults: bool) -> Schema:
    assert isinstance(info, inspect.VarTupleType)  # noqa: S101 - see _CONTAINERS
    items = _schema(info.item_type, with_defaults=with_defaults)
    return {"type": "array", "items": items} | _present(minItems=info.min_length, maxItems=info.max_length)


def _map(info: inspect.Type, with_defaults: bool) -> Schema:
    assert isinstance(info, inspect.DictType)  # noqa: S101 - see _CONTAINERS
    values = _schema(info.value_type, with_defaults=with_defaults)
    return {"type": "object", "additionalProperties": values} | _present(
        minProperties=info.min_length, maxProperties=info.max_length
    )


def _string(info: Any) -> Schema:
    return {"type": "string"} | _present(
        minLength=info.min_length, maxLength=info.max_length, pattern=info.pattern
    )


def _integer(info: Any) -> Schema:
    return {"type": "integer", "format": "int64"} | _present(minimum=info.ge, maximum=info.le)


def _choice(info: Any) -> Schema:
    return {"type": "string", "enum": list(info.values)}


def _quantity(info: Any) -> Schema:
    quantity = info.cls
    if not issubclass(quantity, Quantity):
        raise TypeError(f"no schema for {quantity}")
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": quantity.pattern,
        "maxLength": MAX_QUANTITY_LENGTH,
        "minimum": quantity.minimum,
        "x-kubernetes-int-or-string": True,
    }


_CONTAINERS: Final[Mapping[type[inspect.Type], Callable[[inspect.Type, bool], Schema]]] = {
    inspect.StructType: _struct,
    inspect.VarTupleType: _list,
    inspect.DictType: _map,
}
_LEAVES: Final[Mapping[type[inspect.Type], Callable[[Any], Schema]]] = {
    inspect.StrType: _string,
    inspect.IntType: _integer,
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.LiteralType: _choice,
    inspect.CustomType: _quantity,
}


def _extensions(extra: Mapping[str, Any]) -> Schema:
    """Translate the annotations of `fields` that JSON Schema does not have."""
    shown = _rules(extra.get("rules", ()))
    if keys := extra.get("list_map_keys"):
        shown |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    if kind := extra.get("list"):
        shown |= {"x-kubernetes-list-type": kind}
    if text_format := extra.get("format"):
        shown |= {"format": text_format}
    return shown


def _present(**constraints: int | str | None) -> Schema:
    return {name: value for name, value in constraints.items() if value is not None}


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]
