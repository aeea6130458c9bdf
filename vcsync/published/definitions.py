"""CustomResourceDefinitions that operators publish: which may go to tenants, which one counts, and what is theirs. Pure.

A definition is not a class: its deletion deletes all objects of the kind, and its change can make them unreadable. So
nothing here leads to a deletion, and the super clusters' definitions of one name are never mixed.
"""

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import MAX_DEFINITIONS, PublishedDefinition
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from vcsync.objects.conditions import Condition, is_true
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.published.kind import is_public

APPROVED: Final = "api-approved.kubernetes.io"
"""Annotation without which API servers refuse definitions in groups of the Kubernetes project."""
MAX_BYTES: Final = 512 * 1024
"""Largest definition, as JSON, that is published."""
BUILT_IN_GROUPS: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "custom.metrics.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "external.metrics.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "metrics.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
"""API groups that control planes serve themselves or have aggregated."""
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")

Body = dict[str, Any]


class _Status(Struct, gc=False, rename="camel"):
    conditions: list[Condition] | None = None
    stored_versions: list[str] | None = None


class Definition(Struct, frozen=True):
    """The parts of a definition of a super cluster that tenants get.

    Attributes:
        name: its name.
        digest: digest of the text.
        text: its JSON with the approval and the spec, in which keys are sorted.
    """

    name: str
    digest: str
    text: bytes


class NotPublished(ValueError):
    """A definition cannot be published. The text names the field and the remedy, for the operator."""


def definition_of(found: Envelope) -> Definition:
    """Return what tenants get of a definition of a super cluster.

    Raises:
        NotPublished: the definition must not reach tenants, or cannot be used there.
    """
    if not _is_established(found):
        raise NotPublished("status: the API server there has not established it; its conditions tell why")
    spec = untyped(found.spec)
    body: Body = {"metadata": {"name": found.name}, "spec": {**spec}}
    if APPROVED in found.annotations:
        body["metadata"]["annotations"] = {APPROVED: found.annotations[APPROVED]}
    if spec.get("conversion"):
        # Beside the strategy there are only settings of webhooks.
        body["spec"]["conversion"] = {"strategy": spec["conversion"].get("strategy", "None")}
    check(body)
    text = msgspec.json.encode(body, order="sorted")
    if len(text) > MAX_BYTES:
        raise NotPublished(f"spec: it has {len(text)} bytes, more than {MAX_BYTES}; remove descriptions")
    return Definition(found.name, digest_of(text), text)


def check(body: Mapping[str, Any]) -> None:
    """Check the name, the group and the conversion of a definition.

    Raises:
        NotPublished: it must not reach tenants.
    """
    spec = body["spec"]
    group: str = spec.get("group") or ""
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        raise NotPublished(
            "spec.conversion.strategy: a webhook is a service of this super cluster, which tenants do not have; publish a "
            "definition whose versions need no conversion (strategy None)"
        )
    if group in BUILT_IN_GROUPS:
        raise NotPublished(f"spec.group: {group} is built into control planes; use another group")
    if f".{group}".endswith(f".{names.GROUP}"):
        raise NotPublished(f"spec.group: {group} belongs to vcsync; use another group")
    approved = (body["metadata"].get("annotations") or {}).get(APPROVED)
    if f".{group}".endswith(_PROTECTED) and not approved:
        raise NotPublished(f"metadata.annotations: {group} is a protected group, which requires {APPROVED}")


def _is_established(found: Envelope) -> bool:
    return is_true(decode(found.status, _Status).conditions, "Established")


def digest_of(text: bytes) -> str:
    """Return the digest by which a definition is known."""
    return hashlib.sha256(text).hexdigest()[:32]


class Offer(Struct, frozen=True):
    """The definitions of one super cluster with the label.

    Attributes:
        definitions: those that tenants get, by name.
        refused: name -> why tenants do not get a definition.
    """

    definitions: dict[str, Definition] = {}
    refused: dict[str, str] = {}

    def described(self) -> tuple[PublishedDefinition, ...]:
        """Return the definitions as the status of the SuperCluster names them."""
        return tuple(
            PublishedDefinition(name=each.name, digest=each.digest) for each in self.definitions.values()
        )


def offer(objects: Iterable[Envelope]) -> Offer:
    """Return the published definitions of a super cluster, by name, at most `MAX_DEFINITIONS`."""
    definitions: dict[str, Definition] = {}
    refused: dict[str, str] = {}
    for each in sorted((found for found in objects if is_public(found)), key=lambda found: found.name):
        if len(definitions) >= MAX_DEFINITIONS:
            refused[each.name] = (
                f"a super cluster publishes at most {MAX_DEFINITIONS} definitions, the first by name"
            )
            continue
        try:
            definitions[each.name] = definition_of(each)
        except NotPublished as error:
            refused[each.name] = str(error)
    return Offer(definitions, refused)


# --- the meta cluster

KEY: Final = "definition"
"""Key of a ConfigMap's `binaryData` with a definition: its text, compressed by gzip."""


class _Stored(Struct, gc=False, rename="camel"):
    binary_data: dict[str, str] | None = None


def stored_name(super_id: str, name: str) -> str:
    """Return the name of the ConfigMap with a definition of a super cluster. The digest keeps it short."""
    return f"{super_id}.{digest_of(name.encode())[:16]}"


def stored(super_id: str, definition: Definition) -> Body:
    """Return the ConfigMap with a definition."""
    metadata = {
        "name": stored_name(super_id, definition.name),
        "labels": {names.DEFINITION_OF: super_id},
        "annotations": {names.DEFINITION: definition.digest},
    }
    text = base64.b64encode(gzip.compress(definition.text, mtime=0)).decode()
    return {"metadata": metadata, "binaryData": {KEY: text}}


def restored(found: Envelope, wanted: "Chosen") -> Body:
    """Return the definition in a ConfigMap. It passes the same checks again, since another process has written it.

    Raises:
        NotPublished: the ConfigMap has another definition, or one that must not reach tenants.
    """
    try:
        packed = base64.b64decode((decode(found.rest, _Stored).binary_data or {}).get(KEY, ""))
        text = zlib.decompressobj(wbits=31).decompress(packed, MAX_BYTES)
    except (msgspec.MsgspecError, binascii.Error, zlib.error) as error:
        raise NotPublished(f"binaryData: it cannot be read: {error}") from None
    if digest_of(text) != wanted.digest:
        raise NotPublished("binaryData: it has another definition; the syncer is about to write one of them")
    body: Body = msgspec.json.decode(text)
    if body["metadata"]["name"] != wanted.name:
        raise NotPublished("metadata.name: it is that of another definition")
    check(body)
    return body


# --- the pool


class Chosen(Struct, frozen=True):
    """The definition of one name that tenants get.

    Attributes:
        name: its name.
        digest: its digest.
        super_id: the super cluster that it is from.
        published_by: the super clusters that have it, with commas in between.
        others: super clusters that publish another definition of the name.
    """

    name: str
    digest: str
    super_id: str
    published_by: str
    others: tuple[str, ...] = ()


def chosen(pool: Iterable[Any]) -> dict[str, Chosen]:
    """Return the definitions that tenants get, by name: of each name, that of the first super cluster by its id.

    Args:
        pool: the views of the super clusters. A lost one counts, as with classes.
    """
    by_name: dict[str, dict[str, str]] = {}
    for view in sorted(pool, key=lambda each: str(each.id)):
        for each in view.custom_resource_definitions:
            by_name.setdefault(each.name, {})[view.id] = each.digest
    found = {}
    for name, digests in sorted(by_name.items()):
        first, digest = next(iter(digests.items()))
        same = ",".join(super_id for super_id, each in digests.items() if each == digest)
        others = tuple(super_id for super_id, each in digests.items() if each != digest)
        found[name] = Chosen(name, digest, first, same, others)
    return found


def differences(pool: Iterable[Any], super_id: str) -> dict[str, str]:
    """Return the definitions of a super cluster that tenants do not get, since they get another of the same name."""
    return {
        each.name: f"spec: it differs from that of super cluster {each.super_id}, which tenants get; make them equal"
        for each in chosen(pool).values()
        if super_id in each.others
    }


# --- tenants


def written(found: Envelope) -> str | None:
    """Return the digest of what vcsync has written into a tenant's definition; None if the definition is the tenant's.

    It is the tenant's if vcsync has not made it, or if its spec has changed since: `metadata.generation` grows with each
    change of the spec. A tenant can write the annotation. Then it gets what the operator publishes, as if its definition
    were absent.
    """
    digest, _, generation = found.annotations.get(names.DEFINITION, "").partition(".")
    return digest if digest and generation == str(found.generation) else None


def mark(digest: str, generation: int) -> str:
    """Return the annotation of a definition that vcsync has written."""
    return f"{digest}.{generation}"


def marks(wanted: Chosen, generation: int) -> Body:
    """Return the labels and annotations of a published definition."""
    return {
        "labels": {names.SUPER_PUBLIC: names.TRUE},
        "annotations": {
            names.PUBLISHED_BY: wanted.published_by,
            names.DEFINITION: mark(wanted.digest, generation),
        },
    }


WITHDRAWN: Final[Body] = {
    "labels": {names.SUPER_PUBLIC: None},
    "annotations": {names.PUBLISHED_BY: None},
}
"""Metadata of the merge patch that leaves a definition to the tenant. What vcsync has written stays recorded in it."""


def new(wanted: Chosen, body: Body) -> Body:
    """Return the definition to create in a tenant."""
    resource = CUSTOM_RESOURCE_DEFINITIONS
    metadata = marks(wanted, 1)
    metadata["annotations"] |= body["metadata"].get("annotations", {})
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": wanted.name, **metadata},
        "spec": body["spec"],
    }


def missing_versions(found: Envelope, body: Body) -> list[str]:
    """Return the versions in which the tenant's objects may be stored and that another definition lacks."""
    there = {each.get("name") for each in body["spec"].get("versions") or ()}
    return sorted(set(decode(found.status, _Status).stored_versions or ()) - there)
