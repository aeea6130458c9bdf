"""The process of `vcsync run controlplane`: its store, identity, certificates and server, from start to end."""

import asyncio
import dataclasses
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import structlog

from vcsync.apiserver.admission.framework.settings import Settings, SettingsError, read
from vcsync.apiserver.admission.pod_placement import Placer
from vcsync.apiserver.admission.pod_security.plugin import DEFAULT
from vcsync.apiserver.assembly.identity import Authentication, Identity
from vcsync.apiserver.assembly.server import ControlPlane, control_plane
from vcsync.apiserver.audit.files import Bounds
from vcsync.apiserver.audit.policy import PolicyError
from vcsync.apiserver.audit.service import AuditLog, AuditSettings
from vcsync.apiserver.authentication.jwt_config import ConfigError
from vcsync.apiserver.authentication.token_file import TokenFileError
from vcsync.apiserver.egress.client import Client
from vcsync.apiserver.egress.services import Services
from vcsync.apiserver.flow.dispatcher import Bounds as FlowBounds
from vcsync.apiserver.grants.index import GrantIndex
from vcsync.apiserver.kubelets.pool import Pool
from vcsync.apiserver.kubelets.super_clusters import SuperClusters
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.metering.report import keep_rows
from vcsync.apiserver.operator.folder import (
    DataFolder,
    is_wildcard,
    own_address,
    pod_address,
    serving_names,
)
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.operator.stall_records import record_stalls
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.serving.limits import Limits
from vcsync.apiserver.serving.server_names import remember_server_names
from vcsync.apiserver.storage.compaction import keep_window
from vcsync.apiserver.storage.interface import Store, StoreError, StoreRefused
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.stalls import last_stall
from vcsync.cli.command.terminal import say
from vcsync.cli.controlplane.audit_options import AuditOptions
from vcsync.cli.controlplane.limit_options import LimitOptions
from vcsync.cli.controlplane.settings import ControlPlaneSettings, Etcd
from vcsync.kube import local
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError
from vcsync.objects.envelope import parse
from vcsync.process import logs, loop
from vcsync.process.signals import until_signalled
from vcsync.resourcemetrics.documents import Usage
from vcsync.simulate.usage import simulated_usage

RENEWAL_SECONDS = 6 * 3600.0
"""Seconds between two checks of the serving certificate's age."""
SWITCH_SECONDS = 0.001
"""Longest time, in seconds, that a thread with a large body may block the event loop."""

_log = structlog.get_logger(__name__)


def serve(settings: ControlPlaneSettings, log_level: str, log_format: str) -> None:
    """Run until SIGTERM or Ctrl-C, then shut down gracefully.

    Raises:
        FailedError, WrongInputError: it cannot start; the text says why.
    """
    logs.configure(log_level, "console" if log_format == "console" else "json")
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    loop.run(until_signalled(run_control_plane(settings, partial(_tell, settings))))


async def run_control_plane(
    settings: ControlPlaneSettings, serving: Callable[[], None], placer: Placer | None = None
) -> None:
    """Serve until cancelled; calls `serving` when it serves and the admin kubeconfig is written.

    Args:
        settings: its settings.
        serving: called when it serves.
        placer: the pod scheduler, if it runs in this process.

    Raises:
        FailedError, WrongInputError: it cannot start, or its store is lost; the text says why.
    """
    folder = DataFolder(settings.data)
    endpoint = endpoint_of(settings)
    try:
        async with _store(settings, folder) as store:
            await _serve(settings, folder, endpoint, store, serving, placer)
    except StoreError as error:
        raise FailedError(str(error)) from error
    except ExceptionGroup as group:
        refused = group.subgroup(StoreRefused)
        if refused is None:
            raise
        raise FailedError(str(refused.exceptions[0])) from group


async def _serve(  # noqa: PLR0917 - parts, each of its own type
    settings: ControlPlaneSettings,
    folder: DataFolder,
    endpoint: Endpoint,
    store: Store,
    serving: Callable[[], None],
    placer: Placer | None,
) -> None:
    try:
        wanted = Authentication(**dataclasses.asdict(settings.authentication))
        identity = await Identity.open(
            store, endpoint, authentication=wanted, default_limits=settings.limits.requests
        )
    except TokenFileError as error:
        raise WrongInputError(f"{settings.authentication.token_file}: {error}") from error
    except ConfigError as error:
        raise WrongInputError(f"{settings.authentication.config}: {error}") from error
    except CredentialsError as error:
        raise WrongInputError(f"{settings.authentication.webhook}: {error}") from error
    if stall := last_stall():
        await record_stalls(stall, identity.tenants, identity.lifecycle)
    host, port = settings.listen
    names = serving_names(host, _host_of(settings), *settings.names)
    if settings.tenant_domain:
        names.append(f"*.{settings.tenant_domain}")
    folder.serve_with(identity.server, names, time.time())
    tls = await identity.tenants.ssl_context(folder.certificate, folder.key, folder.authorities)
    if settings.tenant_domain:
        remember_server_names(tls)
    folder.write(folder.admin_kubeconfig, await identity.admin.kubeconfig("system"))
    meter = Meter(store, identity.tenants, time.time)
    egress = Client(settings.webhooks, Services(store))
    plane = control_plane(
        store,
        identity,
        reach=egress.call,
        limits=_limits(settings.limits),
        plugins=_plugins(settings.admission),
        offload=True,
        kubelets=settings.kubelets,
        pool=None if settings.pool is None else _pool(settings.pool),
        simulated=_simulated,
        streams=settings.streams,
        meter=meter,
        services=settings.webhooks,
        placer=placer,
        grants=None
        if settings.grants is None
        else GrantIndex(store, identity.tenants, time.time, settings.grants),
    )
    audit = _audit(settings.audit)
    if audit is not None:
        plane.server.attach_audit_log(audit)
    try:
        await _listen(plane, host, port, tls)
        # Catch up on changes that another process made before this process' watch began.
        await identity.reload()
        with local.serving(endpoint.url, plane.server.in_process(tls)):
            serving()
            loop.tune_gc()
            loop.started()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_renew(folder, identity, names, tls))
                tasks.create_task(identity.deletion.run())
                tasks.create_task(keep_window(store))
                tasks.create_task(keep_rows(store, settings.limits.usage_days, time.time))
                tasks.create_task(store.wait_until_checked())
                tasks.create_task(plane.sound())
    finally:
        _log.info("control plane ends")
        await plane.stop()
        await meter.flush()
        await egress.close()
        if audit is not None:
            await asyncio.to_thread(audit.stop)


def _pool(kubeconfig: Path) -> SuperClusters:
    return SuperClusters(Pool(partial(Connection.from_kubeconfig_file, kubeconfig)))


def _simulated(pod: bytes) -> Usage | None:
    found = simulated_usage(parse(pod), datetime.now(UTC))
    return None if found is None else msgspec.convert(found, Usage)


def _limits(wanted: LimitOptions) -> Limits:
    flow = FlowBounds(
        seats=wanted.reads + wanted.writes,
        watches=wanted.watches,
        watches_of_user=max(1, wanted.watches // 2),
    )
    return Limits(flow, wanted.connections, wanted.connection_rate, wanted.storage, wanted.objects)


def _plugins(file: Path | None) -> Settings:
    """Read the operator's configuration of admission plug-ins; files that it names are relative to it.

    Raises:
        WrongInputError: it is not an AdmissionConfiguration.
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
        WrongInputError: the policy is invalid.
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
    say(f"control plane: {endpoint.url}")
    say(f"admin kubeconfig: {DataFolder(settings.data).admin_kubeconfig}")
    say(f"next: vcsync tenant create acme --data {settings.data}")
    _log.info("control plane serves", url=endpoint.url, listen=":".join(map(str, settings.listen)))


async def _renew(folder: DataFolder, identity: Identity, names: list[str], tls: ssl.SSLContext) -> None:
    """Replace the serving certificate before it expires."""
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
    """Return the host in clients' URLs."""
    if settings.advertise:
        return settings.advertise[0]
    host = settings.listen[0]
    return own_address() if is_wildcard(host) else host


def endpoint_of(settings: ControlPlaneSettings) -> Endpoint:
    """Return the addresses of the API for clients and Pods."""
    host = _host_of(settings)
    port = settings.advertise[1] if settings.advertise else settings.listen[1]
    shown = f"[{host}]" if ":" in host else host
    domain = settings.tenant_domain
    host_names = HostNames(domain) if domain else None
    return Endpoint(f"https://{shown}:{port}", pod_address(host), port, host_names)


@asynccontextmanager
async def _store(settings: ControlPlaneSettings, folder: DataFolder) -> AsyncIterator[Store]:
    store: Store
    if settings.etcd:
        store = await _open_etcd(settings.etcd)
    else:
        if folder.has_lost_its_store():
            raise FailedError(
                f"{folder.admin_kubeconfig} belongs to a system whose store {folder.store} is missing or empty: "
                "put the store back ('vcsync restore' restores a backup), or start in another folder"
            )
        store = await open_sqlite(folder.store)
    try:
        yield store
    finally:
        await store.close()


async def _open_etcd(etcd: Etcd) -> Store:
    # They load gRPC, which a process with a file does not need. It would log each reconnection in its own format.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from vcsync.apiserver.storage.etcd import open_etcd  # noqa: PLC0415
    from vcsync.apiserver.storage.etcd_client import Certificates  # noqa: PLC0415

    if any(url.startswith("https://") for url in etcd.endpoints):
        _require_usable(etcd)
    try:
        certificates = Certificates(etcd.authority, etcd.certificate, etcd.key)
        return await open_etcd(etcd.endpoints, prefix=etcd.prefix, certificates=certificates)
    except OSError as error:
        raise WrongInputError(f"the files for etcd cannot be used: {error}") from error


def _require_usable(etcd: Etcd) -> None:
    """Raise an error that names the reason if a file is not what it should be. gRPC would only not connect."""
    try:
        context = ssl.create_default_context(cafile=etcd.authority)
        if etcd.certificate and etcd.key:
            context.load_cert_chain(etcd.certificate, etcd.key)
    except ssl.SSLError as error:
        raise WrongInputError(f"the files for etcd cannot be used: {error.reason or error}") from error
