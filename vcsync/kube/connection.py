"""The address of an API server and the credentials for it. Files are read again when they change."""

import asyncio
import base64
import binascii
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from vcsync.kube import kubeconfig, plugins, proxies, tls
from vcsync.kube.errors import CredentialsError

SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_RECHECK = 1.0
"""Seconds between two checks of the files. A response with 401 causes an immediate check."""
_EXPIRY_MARGIN = 30.0
"""Seconds before the expiry of a credential of a plug-in at which it is fetched again."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address and credentials of one request. Its repr shows no secret.

    Attributes:
        url: The server's URL without a trailing slash.
        tls: The TLS context; None for plain http.
        server_name: The name the server's certificate must carry, if not the URL's host.
        proxy: URL of the HTTP proxy to go through, if any.
        headers: Headers that authenticate (and impersonate).
        expires: Seconds since 1970 after which they must be fetched again; None if they do not expire.
    """

    url: str
    tls: ssl.SSLContext | None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    expires: float | None = None


class Files:
    """Reads files, and detects their changes.

    Args:
        base: Directory of relative names; None refuses every file. A configuration from an API object must not name files
            of this process.
    """

    def __init__(self, base: Path | None) -> None:
        self.base = base
        self._seen: dict[Path, tuple[int, int, int] | None] = {}

    def read(self, name: str, what: str) -> bytes:
        """Return a file's content.

        Raises:
            CredentialsError: Files are refused, or the file cannot be read. The message begins with `what`.
        """
        if self.base is None:
            raise CredentialsError(
                f"{what}: names a file, but this configuration is not one; put the content in its place"
            )
        path = self.base / name
        self._seen[path] = _fingerprint(path)
        try:
            return path.read_bytes()
        except OSError as error:
            raise CredentialsError(f"{what}: cannot read {path}: {error.strerror}") from None

    def changed(self) -> bool:
        """Return whether any of the files has changed since it was read."""
        return any(_fingerprint(path) != seen for path, seen in self._seen.items())


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


Loader = Callable[[Files], Awaitable[Credentials]]


class Connection:
    """A source of credentials for one API server.

    Create one with `from_kubeconfig_bytes`, `from_kubeconfig_file`, `in_cluster` or `load`, which raise errors of the
    configuration. `credentials` returns the current credentials.
    """

    def __init__(self, load: Loader, *, base: Path | None, recheck: float = _RECHECK) -> None:
        self._load = load
        self._base = base
        self._recheck = recheck
        self._files = Files(base)
        self._current: Credentials | None = None
        self._next_check = 0.0
        self._lock = asyncio.Lock()
        #: Error of the last reading of the files, or None. The previous credentials stay in use after an error.
        self.last_error: str | None = None

    @classmethod
    def from_kubeconfig_bytes(
        cls, data: bytes, *, base_dir: Path | None = None, context: str | None = None
    ) -> "Connection":
        """Create a connection from the content of a kubeconfig, such as that of a Secret.

        Args:
            data: The kubeconfig.
            base_dir: Directory of relative file names. Without it the configuration may name neither files nor commands:
                the author of a Secret must not make this process read files or run commands.
            context: The context to use; its current-context by default.

        Raises:
            CredentialsError: The kubeconfig cannot be used. The message names the field and the remedy.
        """
        config = kubeconfig.parse(data, context=context)
        kubeconfig.server_url(config.cluster.server)

        async def load(files: Files) -> Credentials:
            return await _from_kubeconfig(config, files)

        return cls(load, base=base_dir)

    @classmethod
    def from_kubeconfig_file(
        cls, path: Path | str, context: str | None = None, *, recheck: float = _RECHECK
    ) -> "Connection":
        """Create a connection from a kubeconfig file. The file and the files it names are read again when they change.

        Args:
            path: The file.
            context: The context to use; its current-context by default.
            recheck: Seconds between two checks of the files.

        Raises:
            CredentialsError: The kubeconfig cannot be used. The message names the field and the remedy.
        """
        file = Path(path).expanduser().absolute()

        async def load(files: Files) -> Credentials:
            with kubeconfig.named(file):
                config = kubeconfig.parse(files.read(str(file), "kubeconfig"), context=context)
                return await _from_kubeconfig(config, files)

        with kubeconfig.named(file):
            config = kubeconfig.parse(Files(file.parent).read(str(file), "kubeconfig"), context=context)
            kubeconfig.server_url(config.cluster.server)
        return cls(load, base=file.parent, recheck=recheck)

    @classmethod
    def in_cluster(
        cls, directory: Path = SERVICE_ACCOUNT_DIRECTORY, *, recheck: float = _RECHECK
    ) -> "Connection":
        """Create a connection from a Pod's ServiceAccount: its files and `KUBERNETES_SERVICE_HOST` and `_PORT`.

        Raises:
            CredentialsError: This is not a Pod, or its ServiceAccount token is not mounted.
        """
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise CredentialsError(
                "KUBERNETES_SERVICE_HOST and _PORT are not set: not in a Pod; give a kubeconfig file"
            )
        url = kubeconfig.server_url(f"https://{f'[{host}]' if ':' in host else host}:{port}")

        async def load(files: Files) -> Credentials:
            token = _token(files.read("token", "ServiceAccount token"), "ServiceAccount token")
            ca = files.read("ca.crt", "ServiceAccount ca.crt")
            return Credentials(url, tls.client_context(ca=ca), headers={"Authorization": f"Bearer {token}"})

        Files(directory).read("token", "ServiceAccount token")
        return cls(load, base=directory, recheck=recheck)

    @classmethod
    def load(cls, path: str | None, context: str | None = None) -> "Connection":
        """Create a connection from a kubeconfig file, or without one from the Pod in which this process runs.

        Raises:
            CredentialsError: Neither is possible. The message names the remedy.
        """
        return cls.from_kubeconfig_file(path, context) if path else cls.in_cluster()

    def current(self) -> Credentials | None:
        """Return the credentials, or None if the files must be checked first. Each request may call it: it is cheap."""
        current = self._current
        if current is None or time.monotonic() >= self._next_check:
            return None
        return current

    async def credentials(self, *, refused: Credentials | None = None) -> Credentials:
        """Return the current credentials, after reading files that have changed.

        Args:
            refused: Credentials that the server has just refused. They are fetched again if they are still current.

        Raises:
            CredentialsError: There are no credentials. If there were some before, they are kept when reading fails.
        """
        async with self._lock:
            current = self._current
            self._next_check = time.monotonic() + self._recheck
            usable = current is not None and current is not refused and not self._expired(current)
            if current is not None and usable and not self._files.changed():
                return current
            files = Files(self._base)
            try:
                self._current = await self._load(files)
            except CredentialsError as error:
                self.last_error = str(error)
                if current is None or self._expired(current, margin=0.0):
                    raise
                return current
            self._files = files
            self.last_error = None
            return self._current

    @staticmethod
    def _expired(credentials: Credentials, *, margin: float = _EXPIRY_MARGIN) -> bool:
        return credentials.expires is not None and time.time() >= credentials.expires - margin


async def _from_kubeconfig(config: kubeconfig.Kubeconfig, files: Files) -> Credentials:
    cluster, user = config.cluster, config.user
    url = kubeconfig.server_url(cluster.server)
    certificate = _content(
        files, user.client_certificate_data, user.client_certificate, "user.client-certificate"
    )
    key = _content(files, user.client_key_data, user.client_key, "user.client-key")
    token = user.token
    if user.token_file:
        token = _token(files.read(user.token_file, "kubeconfig: field user.tokenFile"), "user.tokenFile")
    expires = None
    if user.exec_ is not None or user.auth_provider is not None:
        if files.base is None:
            raise CredentialsError(
                "kubeconfig: field user.exec: commands run only from a kubeconfig file; use a token"
            )
        answer = await plugins.fetch(user, files.base)
        token, expires = answer.token or token, answer.expires
        certificate, key = answer.certificate or certificate, answer.key or key
    headers = _impersonation(user)
    if token:
        headers["Authorization"] = f"Bearer {_token(token.encode(), 'user.token')}"
    context = None
    if url.startswith("https:"):
        ca = _content(
            files,
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            "cluster.certificate-authority",
        )
        context = tls.client_context(
            ca=ca, certificate=certificate, key=key, insecure=cluster.insecure_skip_tls_verify
        )
    proxy = proxies.checked(cluster.proxy_url) if cluster.proxy_url else proxies.from_environment(url)
    return Credentials(url, context, cluster.tls_server_name or None, proxy, headers, expires)


def _content(files: Files, data: str, name: str, what: str) -> bytes:
    """Return the decoded `...-data` field, or else the content of the file, or else nothing."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"kubeconfig: field {what}-data is not base64") from None
    return files.read(name, f"kubeconfig: field {what}") if name else b""


def _token(raw: bytes, what: str) -> str:
    """Return a bearer token after a check. A line break in it would start another header."""
    token = raw.strip()
    if not token or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise CredentialsError(f"{what}: empty or not a bearer token (one word of printable characters)")
    return token.decode("ascii")


def _impersonation(user: kubeconfig.User) -> dict[str, str]:
    headers = {}
    if user.impersonate:
        headers["Impersonate-User"] = user.impersonate
    elif user.impersonate_groups or user.impersonate_uid or user.impersonate_extra:
        raise CredentialsError(
            "kubeconfig: field user.as is missing; as-groups, as-uid and as-user-extra need it"
        )
    if user.impersonate_uid:
        headers["Impersonate-Uid"] = user.impersonate_uid
    if len(user.impersonate_groups) > 1 or user.impersonate_extra:
        raise CredentialsError(
            "kubeconfig: field user.as-groups: at most one group, and no as-user-extra, is supported"
        )
    if user.impersonate_groups:
        headers["Impersonate-Group"] = user.impersonate_groups[0]
    return headers
