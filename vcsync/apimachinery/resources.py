"""The resources that a control plane serves: one declaration per resource and version, built-in or custom. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object. Group, version and kind are those of the objects that it sends and receives."""

    name: str
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one served version.

    Attributes:
        verbs: Verbs, as in discovery (`create`, `delete`, `deletecollection`, `get`, `list`, `patch`, ...).
        storage: Version in which objects are stored. It differs from `version` if this is another view of them.
        storage_group: Group under which objects are stored. It differs from `group` for `events.k8s.io`.
        custom: Whether a CustomResourceDefinition defines the resource.
        storage_version_hash: Hash of the storage version, as in discovery. Empty: discovery shows none.
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
        """`apiVersion` of objects of this version: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key_group(self) -> str:
        """The group segment of the keys of objects. It differs between custom and built-in resources of the same group."""
        return custom_group(self.storage_group) if self.custom else self.storage_group

    @property
    def storage_api_version(self) -> str:
        """`apiVersion` of stored objects."""
        return f"{self.storage_group}/{self.storage}" if self.storage_group else self.storage


CUSTOM = "custom:"
"""Prefix of the second segment of the keys of custom objects. No group can begin with it."""


def custom_group(group: str) -> str:
    """Return the group segment of the keys of custom objects of a group."""
    return f"{CUSTOM}{group}"


def collection_key(tenant: str, group: str, plural: str, namespace: str = "") -> str:
    """Return the prefix of the keys of a tenant's objects of one resource, in one namespace or all."""
    prefix = f"{tenant}/{group or 'core'}/{plural}/"
    return f"{prefix}{namespace}/" if namespace else prefix


def object_key(tenant: str, group: str, plural: str, namespace: str, name: str) -> str:
    """Return the key of one object. `namespace` is empty for objects that are not namespaced."""
    return collection_key(tenant, group, plural, namespace) + name
