"""Runs of the container that a request to a kubelet names, or the error if it has none. Pure."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode
from vcsync.simulate.canned import ContainerRun, LogOptions


class _Run(Struct, rename="camel"):
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _State(Struct):
    running: _Run | None = None
    terminated: _Run | None = None


class _ContainerStatus(Struct, rename="camel"):
    name: str = ""
    state: _State | None = None
    last_state: _State | None = None


class _Status(Struct, rename="camel"):
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[_ContainerStatus, ...] | None = None

    @property
    def all(self) -> Iterator[_ContainerStatus]:
        """The parts of a container of any sort."""
        for each in (
            self.container_statuses,
            self.init_container_statuses,
            self.ephemeral_container_statuses,
        ):
            yield from each or ()


class _Container(Struct):
    name: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    ephemeral_containers: tuple[_Container, ...] | None = None

    @property
    def all(self) -> Iterator[_Container]:
        """The containers of a Pod, of any sort."""
        for each in (self.containers, self.init_containers, self.ephemeral_containers):
            yield from each or ()


class Refused(Exception):
    """A kubelet refuses a request; the message gives the reason. `status`: HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def container_run(pod: Envelope, container: str, *, previous: bool) -> ContainerRun:
    """Return a container's current run, or the previous one.

    Raises:
        Refused: the container has no such run; the text is the kubelet's message.
    """
    spec, status = decode(pod.spec, _Spec), decode(pod.status, _Status)
    found = next((each for each in spec.all if each.name == container), None)
    if found is None:
        raise Refused(404, f'container "{container}" not found in pod "{pod.name}"')
    state = next((each for each in status.all if each.name == container), _ContainerStatus())
    chosen = (state.last_state if previous else state.state) or _State()
    run = chosen.running or chosen.terminated
    if run is None or run.started_at is None:
        if previous:
            raise Refused(400, f'previous terminated container "{container}" in pod "{pod.name}" not found')
        raise Refused(
            400, f'container "{container}" in pod "{pod.name}" is waiting to start: ContainerCreating'
        )
    command = (*(found.command or ()), *(found.args or ()))
    return ContainerRun(pod.name, container, run.started_at, run.finished_at, command)


def running(pod: Envelope, container: str) -> ContainerRun:
    """Return the run of a running container.

    Raises:
        Refused: it does not run.
    """
    try:
        life = container_run(pod, container, previous=False)
    except Refused:
        life = None
    if life is None or life.until is not None:
        raise Refused(500, f'container not found ("{container}")')
    return life


def log_options(query: Callable[[str], str | None], now: datetime) -> LogOptions:
    """Parse the options of a log request.

    Raises:
        Refused: they are invalid.
    """
    seconds, since = query("sinceSeconds"), query("sinceTime")
    try:
        return LogOptions(
            tail=int(text) if (text := query("tailLines")) else None,
            limit=int(text) if (text := query("limitBytes")) else None,
            since=now - timedelta(seconds=int(seconds)) if seconds else _time(since),
            timestamps=query("timestamps") == "true",
        )
    except (ValueError, OverflowError) as error:
        raise Refused(400, '{"message": "Unable to decode query."}') from error


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
