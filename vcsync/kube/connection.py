"""Where an API server is and how we prove who we are there; follows its files when they change."""

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
_RECHECK = 1.0  # seconds between two looks at the files; an answer 401 looks at once
_EXPIRY_MARGIN = 30.0  # seconds before its expiry that a plug-in's credential is fetched anew


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everything one request needs to reach its server. Its repr shows no secret.

    Attributes:
        url: the server's URL without a trailing slash.
        tls: the TLS context; None for plain http.
        server_name: the name the server's certificate must carry, if not the URL's host.
        proxy: URL of the HTTP proxy to go through, if any.
        headers: headers that authenticate (and impersonate).
        expires: unix time in seconds after which they must be fetched anew; None if they do not expire.
    """

    url: str
    tls: ssl.SSLContext | None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    expires: float | None = None


class Files:
    """Reads files by name and remembers which, so that a change of any can be noticed.

    Args:
        base: directory that relative names start from; None refuses every file (the configuration came from
            an API object, whose author must not choose among our files).
    """

    def __init__(self, base: Path | None) -> None:
        self.base = base
        self._seen: dict[Path, tuple[int, int, int] | None] = {}

    def read(self, name: str, what: str) -> bytes:
        """Return a file's content.

        Raises:
            CredentialsError: files are refused here, or it cannot be read; `what` names the field.
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
        """Whether any file read is not what it was."""
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

    Made by `from_kubeconfig_bytes`, `from_kubeconfig_file`, `in_cluster` or `load`. Those that read the
    configuration report what is wrong with it at once; `credentials` returns what is true now.
    """

    def __init__(self, load: Loader, *, base: Path | None, recheck: float = _RECHECK) -> None:
        self._load = load
        self._base = base
        self._recheck = recheck
        self._files = Files(base)
        self._current: Credentials | None = None
        self._next_check = 0.0
        self._lock = asyncio.Lock()
        #: Why the last re-reading failed, None if it did not; the credentials before it stay in use.
        self.last_error: str | None = None

    @classmethod
    def from_kubeconfig_bytes(
        cls, data: bytes, *, base_dir: Path | None = None, context: str | None = None
    ) -> "Connection":
        """Make a connection from a kubeconfig's content, as found in a Secret.

        Args:
            data: the kubeconfig.
            base_dir: where relative file names start. Without it the configuration may neither name files nor
                commands: whoever wrote the Secret must not make us read or run what is ours.
            context: the context to use; default its current-context.

        Raises:
            CredentialsError: it is unusable; names the field and the remedy.
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
        """Make a connection from a kubeconfig file; it and the files it names are re-read when they change.

        Args:
            path: the file.
            context: the context to use; default its current-context.
            recheck: seconds between two looks at the files.

        Raises:
            CredentialsError: it is unusable; names the field and the remedy.
        """
        file = Path(path).expanduser().absolute()

        async def load(files: Files) -> Credentials:
            return await _from_kubeconfig(
                kubeconfig.parse(files.read(str(file), "kubeconfig"), context=context), files
            )

        kubeconfig.parse(Files(file.parent).read(str(file), "kubeconfig"), context=context)
        return cls(load, base=file.parent, recheck=recheck)

    @classmethod
    def in_cluster(
        cls, directory: Path = SERVICE_ACCOUNT_DIRECTORY, *, recheck: float = _RECHECK
    ) -> "Connection":
        """Make a connection from a Pod's ServiceAccount: its files and `KUBERNETES_SERVICE_HOST` and `_PORT`.

        Raises:
            CredentialsError: this is not a Pod, or its ServiceAccount token is not mounted.
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
        """Make a connection from the file if one is given, else from the Pod we run in.

        Raises:
            CredentialsError: neither works; names the remedy.
        """
        return cls.from_kubeconfig_file(path, context) if path else cls.in_cluster()

    def current(self) -> Credentials | None:
        """Return the credentials if no file needs a look now. Cheap: for every request."""
        current = self._current
        if current is None or time.monotonic() >= self._next_check:
            return None
        return current

    async def credentials(self, *, refused: Credentials | None = None) -> Credentials:
        """Return the credentials that hold now, re-reading what changed.

        Args:
            refused: credentials that the server has just refused; they are fetched anew unless others hold by
                now.

        Raises:
            CredentialsError: there are none to be had. Once there were, a failed re-reading keeps them.
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
    """Return the decoded `...-data` field if there is one, else the content of the file, else nothing."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"kubeconfig: field {what}-data is not base64") from None
    return files.read(name, f"kubeconfig: field {what}") if name else b""


def _token(raw: bytes, what: str) -> str:
    """Check a bearer token; a line break inside it would be a header of its own."""
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
