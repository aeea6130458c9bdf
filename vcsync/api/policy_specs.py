"""Spec and status of TenantPolicies. No other module declares their fields; see `specs`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vcsync.api.fields import DnsLabel, ImagePrefix, ObjectName, Rule, about, rules
from vcsync.api.specs import Conditions, Permission

LabelKey = Annotated[
    str,
    Meta(
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        max_length=317,
    ),
]
LabelValue = Annotated[str, Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Group = Annotated[
    str,
    Meta(pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$", max_length=253),
]
"""An API group. Empty: the core group. `*`: every group."""
Version = Annotated[str, Meta(pattern=r"^(\*|[a-z0-9]+)$", max_length=63)]
Plural = Annotated[str, Meta(pattern=r"^(\*|[a-z0-9][-a-z0-9]*)(/(\*|[a-z]+))?$", max_length=127)]
"""A resource, with or without a subresource. `*`: every one."""
WholePlural = Annotated[str, Meta(pattern=r"^[a-z0-9][-a-z0-9]*$", max_length=63)]
Groups = Annotated[tuple[Group, ...], Meta(min_length=1, max_length=32)]
Expression = Annotated[str, Meta(min_length=1, max_length=8192)]


class SelectorRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement on a label, as in Kubernetes' label selectors."""

    key: Annotated[LabelKey, about("Key of the label.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], about("Relation of the label to the values.")
    ]
    values: Annotated[
        tuple[LabelValue, ...], Meta(max_length=64), about("Values for the operators In and NotIn.")
    ] = ()


class TenantSelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """A selector of Tenants by the labels of their Tenant objects."""

    match_labels: Annotated[
        dict[LabelKey, LabelValue], Meta(max_length=32), about("Labels that the Tenant must have.")
    ] = {}
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...],
        Meta(max_length=32),
        about("Requirements on the labels of the Tenant."),
        rules(
            Rule(
                "self.all(each, each.operator in ['In', 'NotIn'] == (has(each.values) && size(each.values) > 0))",
                "spec.tenants.selector.matchExpressions with In and NotIn need values, others take none: add or remove values",
            )
        ),
    ] = ()


class SelectedTenants(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tenants to which a policy applies: those with one of the names, or those that the selector selects."""

    names: Annotated[tuple[DnsLabel, ...], Meta(max_length=1000), about("Names of tenants.")] = ()
    selector: Annotated[TenantSelector | None, about("Selector of Tenants by their labels.")] = None


class ForbiddenResource(Struct, frozen=True, kw_only=True, rename="camel"):
    """Resources whose objects a tenant cannot create or change."""

    api_groups: Annotated[Groups, about("API groups. An empty text is the core group, * is every group.")]
    resources: Annotated[
        tuple[Plural, ...],
        Meta(min_length=1, max_length=64),
        about("Resources, such as daemonsets, subresources, such as pods/exec, or * for every resource."),
    ]


class RequiredLabel(Struct, frozen=True, kw_only=True, rename="camel"):
    """A label that objects must have."""

    key: Annotated[LabelKey, about("Key of the label.")]
    values: Annotated[
        tuple[LabelValue, ...], Meta(max_length=64), about("Values that it may have. Empty: any value.")
    ] = ()


class RequiredLabels(Struct, frozen=True, kw_only=True, rename="camel"):
    """Labels that objects of some resources must have."""

    api_groups: Annotated[Groups, about("API groups. An empty text is the core group, * is every group.")]
    resources: Annotated[
        tuple[WholePlural, ...], Meta(min_length=1, max_length=64), about("Resources, such as namespaces.")
    ]
    labels: Annotated[
        tuple[RequiredLabel, ...], Meta(min_length=1, max_length=32), about("Labels that objects must have.")
    ]


class PolicyPodSecurity(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Pod Security Standard that all Pods must meet, whatever the labels of their namespaces."""

    level: Annotated[Literal["baseline", "restricted"], about("Level of the standard.")]
    version: Annotated[
        str,
        Meta(pattern=r"^(latest|v1\.(0|[1-9][0-9]{0,4}))$", max_length=16),
        about("Version of the standard: latest, or a version of Kubernetes such as v1.36."),
    ] = "latest"


class ResourceRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """Requests on which an expression is evaluated, as in ValidatingAdmissionPolicy."""

    api_groups: Annotated[Groups, about("API groups. An empty text is the core group, * is every group.")]
    api_versions: Annotated[
        tuple[Version, ...],
        Meta(min_length=1, max_length=16),
        about("API versions. Objects of other versions are converted to them, where they can be."),
    ]
    resources: Annotated[
        tuple[Plural, ...], Meta(min_length=1, max_length=64), about("Resources and subresources.")
    ]
    operations: Annotated[
        tuple[Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"], ...],
        Meta(min_length=1, max_length=5),
        about("Operations."),
    ]


class PolicyValidation(Struct, frozen=True, kw_only=True, rename="camel"):
    """An expression that must be true for a request."""

    resource_rules: Annotated[
        tuple[ResourceRule, ...],
        Meta(min_length=1, max_length=16),
        about("Requests on which the expression is evaluated."),
    ]
    expression: Annotated[
        Expression,
        about(
            "Expression in CEL, with the variables of ValidatingAdmissionPolicy: object, oldObject, request, "
            "namespaceObject and authorizer."
        ),
    ]
    message: Annotated[str, Meta(max_length=1024), about("Text of the refusal. Default: the expression.")] = (
        ""
    )
    message_expression: Annotated[
        str, Meta(max_length=8192), about("Expression in CEL whose result is the text of the refusal.")
    ] = ""
    reason: Annotated[
        Literal["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"],
        about("Reason of the refusal, which decides its HTTP status code."),
    ] = "Forbidden"


class PolicyServices(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits on the Services of tenants."""

    types: Annotated[
        tuple[Literal["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], ...],
        Meta(max_length=4, extra={"list": "set"}),
        about("Types that Services may have. Empty: any type."),
    ] = ()
    external_ips: Annotated[
        Permission, about("spec.externalIPs. An address may catch the traffic of others.")
    ] = msgspec.field(default="Refuse", name="externalIPs")
    load_balancer_ip: Annotated[
        Permission, about("spec.loadBalancerIP. The address may belong to somebody else.")
    ] = msgspec.field(default="Refuse", name="loadBalancerIP")
    node_ports: Annotated[Permission, about("Node ports, chosen or allocated.")] = "Allow"


Manifest = Annotated[dict[str, Any], Meta(extra={"embedded": True})]


class ObjectSource(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of the operator's space that is copied into tenants."""

    kind: Annotated[Literal["ConfigMap", "Secret"], about("Kind of the object.")]
    namespace: Annotated[DnsLabel, about("Namespace of the object in the operator's space.")]
    name: Annotated[ObjectName, about("Name of the object, and of its copies.")]


class PlacedObject(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that the operator places in tenants and keeps there."""

    manifest: Annotated[
        Manifest | None,
        about(
            "The object: a ConfigMap, LimitRange, NetworkPolicy, PriorityClass, ResourceQuota, RuntimeClass, Secret, "
            "or an object of RBAC."
        ),
    ] = None
    copy_of: Annotated[
        ObjectSource | None,
        about("ConfigMap or Secret of the operator's space to copy. Its changes are followed."),
    ] = None
    namespaces: Annotated[
        tuple[DnsLabel, ...],
        Meta(max_length=64),
        about(
            "Namespaces of the tenants in which the object is placed as soon as they exist. Default: all but kube-system, "
            "kube-public, kube-node-lease and vcsync-system."
        ),
    ] = ()


class TenantPolicySpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules of the operator for tenants. A tenant can neither change nor switch them off."""

    tenants: Annotated[
        SelectedTenants | None,
        about("Tenants to which the policy applies. Default: all of them."),
        rules(
            Rule(
                "(has(self.names) && size(self.names) > 0) != has(self.selector)",
                "spec.tenants needs either names or selector: set one of them, or remove tenants to select all tenants",
            )
        ),
    ] = None
    forbidden_resources: Annotated[
        tuple[ForbiddenResource, ...],
        Meta(max_length=32),
        about("Resources whose objects the tenants can only read and delete."),
    ] = ()
    required_labels: Annotated[
        tuple[RequiredLabels, ...],
        Meta(max_length=32),
        about("Labels that new objects must have and that stay."),
    ] = ()
    image_registries: Annotated[
        tuple[ImagePrefix, ...],
        Meta(max_length=64),
        about(
            "Registries that the images of Pods may come from: registry.example.com, or with the beginning of a path, "
            "registry.example.com/team. docker.io/library has Docker's official images. Empty: any registry."
        ),
    ] = ()
    pod_security: Annotated[
        PolicyPodSecurity | None, about("Pod Security Standard that all Pods must meet.")
    ] = None
    validations: Annotated[
        tuple[PolicyValidation, ...],
        Meta(max_length=32),
        about("Expressions that must be true for requests of the tenants."),
    ] = ()
    default_runtime_class_name: Annotated[
        ObjectName | None,
        about(
            "RuntimeClass of Pods that name none. Tenants need a RuntimeClass of this name; without it, their Pods are refused."
        ),
    ] = None
    service_policy: Annotated[
        PolicyServices | None, about("What the tenants may ask for with Services. Default: everything.")
    ] = None
    placed_objects: Annotated[
        tuple[PlacedObject, ...],
        Meta(max_length=32),
        about("Objects that the operator places in the tenants. Tenants can read them only."),
        rules(
            Rule(
                "self.all(each, has(each.manifest) != has(each.copyOf))",
                "spec.placedObjects need either manifest or copyOf: add or remove one of them",
            )
        ),
    ] = ()


class TenantPolicyStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Observed state of the policy."""

    observed_generation: Annotated[
        int, Meta(ge=0), about("The metadata.generation that the status is about.")
    ] = 0
    selected_tenants: Annotated[
        int, Meta(ge=0), about("Number of tenants in which the policy is in force.")
    ] = 0
    conditions: Conditions = ()
