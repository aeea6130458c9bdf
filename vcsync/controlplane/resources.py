"""What a control plane serves: one declaration for each resource and version, built-in or custom. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object. Group, version and kind are those of what is sent and answered there."""

    name: str
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one served version.

    Attributes:
        verbs: as discovery tells them (`create`, `delete`, `deletecollection`, `get`, `list`, `patch`, ...).
        storage: the version in which objects are kept; differs from `version` for a further view of them.
        storage_group: the group under which they are kept; differs for `events.k8s.io`.
        custom: whether a CustomResourceDefinition made it.
        storage_version_hash: as discovery shows it; empty: it shows none.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    storage: str = ""
    storage_group: str = ""
    list_kind: str = ""
    custom: bool = False
    storage_version_hash: str = ""

    @property
    def api_version(self) -> str:
        """As objects name it: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key_group(self) -> str:
        """The group in the keys of its objects: custom objects have a segment of their own, whatever their group."""
        return custom_group(self.storage_group) if self.custom else self.storage_group

    @property
    def storage_api_version(self) -> str:
        """The apiVersion of what is kept."""
        return f"{self.storage_group}/{self.storage}" if self.storage_group else self.storage


CUSTOM = "custom:"
"""Begins the second segment of custom objects' keys; no group can begin so."""


def custom_group(group: str) -> str:
    """Return how the keys of custom objects of a group name it."""
    return f"{CUSTOM}{group}"


def collection_key(tenant: str, group: str, plural: str, namespace: str = "") -> str:
    """Return the prefix of the keys of a tenant's objects of one resource, in one namespace or all."""
    prefix = f"{tenant}/{group or 'core'}/{plural}/"
    return f"{prefix}{namespace}/" if namespace else prefix


def object_key(tenant: str, group: str, plural: str, namespace: str, name: str) -> str:
    """Return the key of one object; `namespace` is empty for what is in none."""
    return collection_key(tenant, group, plural, namespace) + name
