"""The process of `vcsync run controlplane`: its store, identity, certificates and server, from start to end."""

import asyncio
import dataclasses
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import click
import structlog

from vcsync.cli.controlplane import ControlPlaneSettings, Etcd
from vcsync.cli.controlplane_audit import AuditOptions
from vcsync.cli.controlplane_limits import LimitOptions
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.signals import until_signalled
from vcsync.controlplane.admission.pod_security import DEFAULT
from vcsync.controlplane.admission.settings import Settings, SettingsError, read
from vcsync.controlplane.audit.files import Bounds
from vcsync.controlplane.audit.policy import PolicyError
from vcsync.controlplane.audit.service import AuditLog, AuditSettings
from vcsync.controlplane.egress.client import Client
from vcsync.controlplane.egress.services import Services
from vcsync.controlplane.flow.gate import Bounds as FlowBounds
from vcsync.controlplane.identity.jwt_config import ConfigError
from vcsync.controlplane.identity.service import Authentication, Identity
from vcsync.controlplane.identity.token_file import TokenFileError
from vcsync.controlplane.rest.assemble import ControlPlane, control_plane
from vcsync.controlplane.rest.limits import Limits
from vcsync.controlplane.store.etcd import open_etcd
from vcsync.controlplane.store.interface import Store, StoreError, StoreRefused
from vcsync.controlplane.store.sqlite import open_sqlite
from vcsync.controlplane.store.window import keep_window
from vcsync.controlplane.tenants.folder import (
    DataFolder,
    is_wildcard,
    own_address,
    pod_address,
    serving_names,
)
from vcsync.controlplane.tenants.lifecycle import Endpoint
from vcsync.kube import local, logs, loop
from vcsync.kube.errors import CredentialsError

RENEWAL_SECONDS = 6 * 3600.0
"""How often to look whether the serving certificate is to be renewed."""
SWITCH_SECONDS = 0.001
"""How long a thread with a large body may keep the event loop waiting."""

_log = structlog.get_logger(__name__)


def serve(settings: ControlPlaneSettings, log_level: str, log_format: str) -> None:
    """Run until SIGTERM or Ctrl-C, which end it gracefully.

    Raises:
        FailedError, WrongInputError: it cannot start; the text says why.
    """
    logs.configure(log_level, "console" if log_format == "console" else "json")
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    loop.run(until_signalled(run_control_plane(settings, partial(_tell, settings))))


async def run_control_plane(settings: ControlPlaneSettings, serving: Callable[[], None]) -> None:
    """Serve until cancelled; `serving` is called once it does and the admin kubeconfig is written.

    Raises:
        FailedError, WrongInputError: it cannot start, or its store is lost; the text says why.
    """
    folder = DataFolder(settings.data)
    endpoint = endpoint_of(settings)
    try:
        async with _store(settings, folder) as store:
            await _serve(settings, folder, endpoint, store, serving)
    except StoreError as error:
        raise FailedError(str(error)) from error
    except ExceptionGroup as group:
        refused = group.subgroup(StoreRefused)
        if refused is None:
            raise
        raise FailedError(str(refused.exceptions[0])) from group


async def _serve(
    settings: ControlPlaneSettings,
    folder: DataFolder,
    endpoint: Endpoint,
    store: Store,
    serving: Callable[[], None],
) -> None:
    try:
        wanted = Authentication(**dataclasses.asdict(settings.authentication))
        identity = await Identity.open(store, endpoint, authentication=wanted)
    except TokenFileError as error:
        raise WrongInputError(f"{settings.authentication.token_file}: {error}") from error
    except ConfigError as error:
        raise WrongInputError(f"{settings.authentication.config}: {error}") from error
    except CredentialsError as error:
        raise WrongInputError(f"{settings.authentication.webhook}: {error}") from error
    host, port = settings.listen
    names = serving_names(host, _host_of(settings), *settings.names)
    folder.serve_with(identity.server, names, time.time())
    tls = await identity.tenants.ssl_context(folder.certificate, folder.key, folder.authorities)
    folder.write(folder.admin_kubeconfig, await identity.admin.kubeconfig("system"))
    egress = Client(settings.webhooks, Services(store))
    plane = control_plane(
        store,
        identity,
        reach=egress.call,
        limits=_limits(settings.limits),
        plugins=_plugins(settings.admission),
        slow_lane=True,
        kubelets=settings.kubelets,
    )
    audit = _audit(settings.audit)
    if audit is not None:
        plane.server.audit(audit)
    try:
        await _listen(plane, host, port, tls)
        await identity.reload()  # what another process changed before our watch began
        with local.serving(endpoint.url, plane.server.inside(tls)):
            serving()
            loop.tune_gc()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_renew(folder, identity, names, tls))
                tasks.create_task(identity.departures.run())
                tasks.create_task(keep_window(store))
                tasks.create_task(store.sound())
                tasks.create_task(plane.sound())
    finally:
        _log.info("control plane ends")
        await plane.stop()
        await egress.close()
        if audit is not None:
            await asyncio.to_thread(audit.stop)


def _limits(wanted: LimitOptions) -> Limits:
    flow = FlowBounds(
        seats=wanted.reads + wanted.writes,
        watches=wanted.watches,
        watches_of_user=max(1, wanted.watches // 2),
    )
    return Limits(flow, wanted.connections, wanted.connection_rate, wanted.storage, wanted.objects)


def _plugins(file: Path | None) -> Settings:
    """Read what the operator says of admission plug-ins; files that it names lie beside it.

    Raises:
        WrongInputError: it is no AdmissionConfiguration.
    """
    if file is None:
        return DEFAULT
    try:
        return read(file.read_bytes(), lambda name: (file.parent / name).read_bytes())
    except (SettingsError, OSError) as error:
        raise WrongInputError(f"{file}: {error}") from error


def _audit(wanted: AuditOptions | None) -> AuditLog | None:
    """Open the audit log.

    Raises:
        WrongInputError: the policy is none.
        FailedError: the folder cannot be used.
    """
    if wanted is None:
        return None
    megabyte = 2**20
    bounds = Bounds(wanted.size * megabyte, wanted.backups, wanted.days, wanted.total * megabyte)
    try:
        log = AuditLog(AuditSettings(wanted.policy, wanted.folder, bounds, wanted.largest))
    except PolicyError as error:
        raise WrongInputError(f"{wanted.policy}: {error}") from error
    except OSError as error:
        raise FailedError(f"the audit log cannot be kept: {error}") from error
    log.start()
    return log


async def _listen(plane: ControlPlane, host: str, port: int, tls: ssl.SSLContext) -> None:
    try:
        await plane.start(host, port, tls)
    except OSError as error:
        why = error.strerror or error
        raise FailedError(f"cannot listen on {host}:{port}: {why}; choose another with --listen") from error


def _tell(settings: ControlPlaneSettings) -> None:
    endpoint = endpoint_of(settings)
    click.echo(f"control plane: {endpoint.url}")
    click.echo(f"admin kubeconfig: {DataFolder(settings.data).admin_kubeconfig}")
    click.echo(f"next: vcsync tenant create acme --data {settings.data}")
    _log.info("control plane serves", url=endpoint.url, listen=":".join(map(str, settings.listen)))


async def _renew(folder: DataFolder, identity: Identity, names: list[str], tls: ssl.SSLContext) -> None:
    """Put a new serving certificate in place before the old one ends."""
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        try:
            if folder.serve_with(identity.server, names, time.time()):
                tls.load_cert_chain(folder.certificate, folder.key)
                folder.write(folder.admin_kubeconfig, await identity.admin.kubeconfig("system"))
                _log.info("serving certificate renewed")
        except (OSError, StoreError) as error:
            _log.warning("serving certificate cannot be renewed", error=str(error))


def _host_of(settings: ControlPlaneSettings) -> str:
    """Return the host that clients are told."""
    if settings.advertise:
        return settings.advertise[0]
    host = settings.listen[0]
    return own_address() if is_wildcard(host) else host


def endpoint_of(settings: ControlPlaneSettings) -> Endpoint:
    """Return where clients and Pods find the API."""
    host = _host_of(settings)
    port = settings.advertise[1] if settings.advertise else settings.listen[1]
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(f"https://{shown}:{port}", pod_address(host), port)


@asynccontextmanager
async def _store(settings: ControlPlaneSettings, folder: DataFolder) -> AsyncIterator[Store]:
    store: Store
    if settings.etcd:
        store = await open_etcd(
            settings.etcd.endpoints, prefix=settings.etcd.prefix, tls=_tls_of(settings.etcd)
        )
    else:
        if folder.has_lost_its_store():
            raise FailedError(
                f"{folder.admin_kubeconfig} belongs to a system whose store {folder.store} is not there, or is empty: "
                "put the store back ('vcsync restore' puts a backup there), or begin anew in another folder"
            )
        store = await open_sqlite(folder.store)
    try:
        yield store
    finally:
        await store.close()


def _tls_of(etcd: Etcd) -> ssl.SSLContext | None:
    if not any(url.startswith("https://") for url in etcd.endpoints):
        return None
    try:
        context = ssl.create_default_context(cafile=etcd.authority)
        if etcd.certificate and etcd.key:
            context.load_cert_chain(etcd.certificate, etcd.key)
    except ssl.SSLError as error:
        raise WrongInputError(f"the files for etcd cannot be used: {error.reason or error}") from error
    return context
