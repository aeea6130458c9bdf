"""The custom resources that a tenant's definitions declare. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from vcsync.kube.resources import Resource
from vcsync.objects.conditions import Condition, is_true
from vcsync.objects.envelope import Envelope, decode, encode


class _Names(Struct, frozen=True):
    plural: str = ""
    kind: str = ""


class _Version(Struct, frozen=True):
    name: str = ""
    served: bool = False
    storage: bool = False


class _Spec(Struct, frozen=True):
    group: str = ""
    names: _Names = _Names()
    scope: str = ""
    versions: tuple[_Version, ...] = ()


class _Status(Struct):
    conditions: tuple[Condition, ...] | None = None


def slim(definition: Envelope) -> Envelope:
    """Return a definition without its schemas, which may be large."""
    return replace(
        definition,
        annotations={},
        spec=encode(decode(definition.spec, _Spec)),
        status=encode(
            {"conditions": [{"type": "Established", "status": "True"}] if _established(definition) else []}
        ),
    )


def resource_of(definition: Envelope) -> Resource | None:
    """Return the resource that a definition declares, in its storage version if served; None: it is not served (yet)."""
    if not _established(definition):
        return None
    spec = decode(definition.spec, _Spec)
    served = sorted((each for each in spec.versions if each.served), key=lambda each: not each.storage)
    if not served:
        return None
    return Resource(
        spec.group, served[0].name, spec.names.plural, spec.names.kind, namespaced=spec.scope == "Namespaced"
    )


def _established(definition: Envelope) -> bool:
    return is_true(decode(definition.status, _Status).conditions, "Established")
