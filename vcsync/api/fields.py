"""Types of the fields of vcsync's own objects: their schema in a CRD, and what a reader enforces."""

import re
from typing import Annotated, Any, ClassVar, Final, Self

from msgspec import Meta, Struct

from vcsync.api.names import DNS_LABEL_PATTERN, MAX_LABEL_LENGTH, MAX_SUPER_ID_LENGTH

MAX_RESOURCES: Final = 64
"""Maximum number of entries in a map from resource name to amount."""
MAX_QUANTITY_LENGTH: Final = 64
MAX_SUPER_CLUSTERS: Final = 256
"""Maximum number of super clusters that one namespace can use."""
MAX_SLICES: Final = 1000
"""Maximum number of slices of one namespace (as in `vcsync.scheduling`)."""

_LABEL = DNS_LABEL_PATTERN.strip("^$")
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_POSITIVE_NUMBER = r"([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]+\.[0-9]*[1-9][0-9]*|\.[0-9]*[1-9][0-9]*)"
_SUFFIX = r"([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"

QUANTITY_PATTERN: Final = rf"^\+?{_NUMBER}{_SUFFIX}$"
"""A quantity that is not negative; grammar: Kubernetes API reference, "Quantity"."""
POSITIVE_QUANTITY_PATTERN: Final = rf"^\+?{_POSITIVE_NUMBER}{_SUFFIX}$"
"""A quantity greater than zero."""
PERCENT_OR_QUANTITY_PATTERN: Final = rf"^((100|[1-9]?[0-9])%|\+?{_NUMBER}{_SUFFIX})$"
"""A percentage of the total (`0%` to `100%`) or an amount."""


class Rule(Struct, frozen=True):
    """One CEL rule of a schema (`x-kubernetes-validations`); `message` names the field and the remedy.

    `field_path` reports the error at a field below the one that carries the rule (`.spec.id`).
    """

    rule: str
    message: str
    field_path: str = ""


def rules(*cel_rules: Rule) -> Meta:
    """Attach CEL rules to a field's schema."""
    return Meta(extra={"rules": cel_rules})


def about(description: str, **constraints: Any) -> Meta:
    """Describe a field (for `kubectl explain`) and, with `msgspec.Meta`'s keywords, constrain it."""
    return Meta(description=description, **constraints)


class Quantity(str):
    """An amount of a resource as written by a user: in YAML a string (`"100m"`) or a whole number (`2`)."""

    __slots__ = ()
    pattern: ClassVar[str] = QUANTITY_PATTERN
    minimum: ClassVar[int] = 0
    meaning: ClassVar[str] = "a quantity that is not negative, such as 100m, 2 or 4Gi"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a quantity from a JSON value.

        Raises:
            ValueError: the value is not a quantity of this form.
        """
        if isinstance(value, str | int) and not isinstance(value, bool):
            text = str(value)
            if len(text) <= MAX_QUANTITY_LENGTH and re.fullmatch(cls.pattern, text):
                return cls(text)
        raise ValueError(f"Expected {cls.meaning}, got `{value}`")


class PositiveQuantity(Quantity):
    """A quantity greater than zero."""

    __slots__ = ()
    pattern = POSITIVE_QUANTITY_PATTERN
    minimum = 1
    meaning = "a quantity greater than zero, such as 100m, 2 or 4Gi"


class PercentOrQuantity(Quantity):
    """A percentage (`"10%"`) or an amount."""

    __slots__ = ()
    pattern = PERCENT_OR_QUANTITY_PATTERN
    meaning = "a percentage from 0% to 100% or a quantity, such as 10% or 4Gi"


DnsLabel = Annotated[str, Meta(pattern=DNS_LABEL_PATTERN, max_length=MAX_LABEL_LENGTH)]
SuperId = Annotated[str, Meta(pattern=DNS_LABEL_PATTERN, max_length=MAX_SUPER_ID_LENGTH)]
OptionalDnsLabel = Annotated[str, Meta(pattern=rf"^({_LABEL})?$", max_length=MAX_LABEL_LENGTH)]
ObjectName = Annotated[str, Meta(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
"""A DNS subdomain: the name of most Kubernetes objects."""
OptionalObjectName = Annotated[str, Meta(pattern=rf"^({_LABEL}(\.{_LABEL})*)?$", max_length=253)]
SecretKey = Annotated[str, Meta(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
Host = Annotated[
    str, Meta(pattern=r"^[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?$|^[0-9A-Fa-f:.]+$", max_length=253)
]
"""A DNS name or an IP address (IPv6 without brackets)."""
Overcommit = Annotated[str, Meta(pattern=r"^[1-9][0-9]{2,3}%$", max_length=5)]
"""Percentage of the capacity that may be promised in slices: `100%` (all of it, once) to `9999%`."""
RequestLimit = Annotated[int, Meta(ge=0, le=1_000_000)]
"""A number of requests. 0: no limit."""
Port = Annotated[int, Meta(ge=1, le=65535)]
ImagePrefix = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
        max_length=255,
    ),
]
"""A registry, with or without the beginning of a path."""
_HOST_PART = r"([-a-z0-9]|\{tenant\})+"
HostPattern = Annotated[str, Meta(pattern=rf"^(\*\.)?{_HOST_PART}(\.{_HOST_PART})*$", max_length=253)]
"""A DNS name, or all names below one as `*.name`. `{tenant}` stands for the name of the tenant."""
AnnotationPattern = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*\*?$", max_length=317)]
"""Key of an annotation, or the beginning of keys, followed by `*`."""
BalancerClass = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$", max_length=317)]
"""A class of load balancers, with or without a domain (core/v1 `ServiceSpec.loadBalancerClass`)."""
SysctlPattern = Annotated[str, Meta(pattern=r"^[a-z0-9][-a-z0-9_./]*\*?$", max_length=253)]
"""Name of a sysctl, or the beginning of names, followed by `*`, as the kubelet's `allowedUnsafeSysctls` has them."""
Uid = Annotated[str, Meta(max_length=128)]
Reason = Annotated[str, Meta(max_length=256)]
Message = Annotated[str, Meta(max_length=32768)]
Time = Annotated[str, Meta(max_length=64, extra={"format": "date-time"})]
"""A point in time as RFC 3339 text."""
Amount = Annotated[str, Meta(max_length=MAX_QUANTITY_LENGTH)]
"""A quantity as vcsync writes it into a status."""
Amounts = Annotated[dict[str, Amount], Meta(max_length=MAX_RESOURCES)]
Slices = Annotated[int, Meta(ge=0, le=MAX_SLICES)]
SlicesBySuper = Annotated[dict[str, Slices], Meta(max_length=MAX_SUPER_CLUSTERS)]
"""Super cluster id to number of slices."""
