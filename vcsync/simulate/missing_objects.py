"""Missing ConfigMaps and Secrets that a Pod needs to start, and the kubelet's messages about them.

Projected volumes are assumed to exist: nearly every Pod has one, with objects that its cluster creates.
"""

from collections.abc import Iterator

from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import CONFIG_MAPS, SECRETS, Resource
from vcsync.objects.envelope import Envelope, decode


class _Reference(Struct):
    name: str = ""
    optional: bool = False


class _SecretVolume(Struct, rename="camel"):
    secret_name: str = ""
    optional: bool = False


class _Volume(Struct, rename="camel"):
    name: str = ""
    config_map: _Reference | None = None
    secret: _SecretVolume | None = None


class _Value(Struct, rename="camel"):
    config_map_key_ref: _Reference | None = None
    secret_key_ref: _Reference | None = None


class _Variable(Struct, rename="camel"):
    value_from: _Value | None = None


class _Variables(Struct, rename="camel"):
    config_map_ref: _Reference | None = None
    secret_ref: _Reference | None = None


class _Container(Struct, rename="camel"):
    name: str = ""
    env: tuple[_Variable, ...] | None = None
    env_from: tuple[_Variables, ...] | None = None


class _Spec(Struct, rename="camel"):
    volumes: tuple[_Volume, ...] | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class Need(Struct, frozen=True):
    """An object that must exist before a container starts; for a volume, before any container of the Pod starts."""

    resource: Resource
    name: str
    container: str = ""
    volume: str = ""

    @property
    def lack(self) -> str:
        """Return the kubelet's message if it does not exist."""
        return f'{self.resource.kind.lower()} "{self.name}" not found'

    @property
    def event(self) -> tuple[str, str]:
        """Return reason and message of the kubelet's Event about it."""
        if self.volume:
            return "FailedMount", f'MountVolume.SetUp failed for volume "{self.volume}" : {self.lack}'
        return "Failed", f"Error: {self.lack}"


async def missing(client: Client, pod: Envelope) -> list[Need]:
    """Return the missing objects that a Pod needs to start."""
    there: dict[tuple[Resource, str], bool] = {}
    wanted = needs(pod)
    for each in wanted:
        if (each.resource, each.name) not in there:
            there[each.resource, each.name] = await _is_there(client, each, pod.namespace)
    return [each for each in wanted if not there[each.resource, each.name]]


async def _is_there(client: Client, need: Need, namespace: str) -> bool:
    try:
        await client.get(need.resource, need.name, namespace)
    except NotFound:
        return False
    return True


def needs(pod: Envelope) -> list[Need]:
    """Return the objects that must exist before a Pod starts."""
    spec = decode(pod.spec, _Spec)
    found = list(_of_volumes(spec))
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        found += _of_container(container)
    return found


def _of_volumes(spec: _Spec) -> Iterator[Need]:
    for volume in spec.volumes or ():
        if volume.config_map is not None and not volume.config_map.optional:
            yield Need(CONFIG_MAPS, volume.config_map.name, volume=volume.name)
        if volume.secret is not None and not volume.secret.optional:
            yield Need(SECRETS, volume.secret.secret_name, volume=volume.name)


def _of_container(container: _Container) -> Iterator[Need]:
    variables = [each.value_from for each in container.env or () if each.value_from is not None]
    for resource, reference in (
        *((CONFIG_MAPS, each.config_map_ref) for each in container.env_from or ()),
        *((SECRETS, each.secret_ref) for each in container.env_from or ()),
        *((CONFIG_MAPS, each.config_map_key_ref) for each in variables),
        *((SECRETS, each.secret_key_ref) for each in variables),
    ):
        if reference is not None and not reference.optional and reference.name:
            yield Need(resource, reference.name, container=container.name)
