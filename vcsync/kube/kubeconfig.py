"""Parses a kubeconfig to the cluster and the user of one context. Pure."""

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from vcsync.kube.errors import CredentialsError
from vcsync.patterns.linear import linear

MAX_BYTES = 1024 * 1024
_SERVER = linear(r"(https?)://(\[[^\]/]+\]|[^:/?#@\[\]]+)(?::(\d{1,5}))?(/[^?#]*)?")


class Cluster(Struct, frozen=True, rename="kebab"):
    """A `cluster` entry: the address of a server, and how to verify it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecVariable(Struct, frozen=True):
    """An environment variable for a credential plug-in."""

    name: str
    value: str = ""


class Exec(Struct, frozen=True, rename="camel"):
    """A credential plug-in (`exec`): a command that prints an ExecCredential."""

    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: list[str] | None = None
    env: list[ExecVariable] | None = None


class User(Struct, frozen=True, rename="kebab"):
    """A `user` entry: credentials of the client."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    exec_: Exec | None = msgspec.field(name="exec", default=None)
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: list[str] = msgspec.field(name="as-groups", default_factory=list)
    impersonate_extra: dict[str, list[str]] = msgspec.field(name="as-user-extra", default_factory=dict)


class Context(Struct, frozen=True):
    """A `context` entry: the names of a cluster and a user."""

    cluster: str = ""
    user: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: Cluster


class _NamedUser(Struct):
    name: str
    user: User | None = None


class _NamedContext(Struct):
    name: str
    context: Context


class _File(Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


class Kubeconfig(Struct, frozen=True):
    """The cluster and the user of one context."""

    cluster: Cluster
    user: User


def parse(data: bytes, *, context: str | None = None) -> Kubeconfig:
    """Parse a kubeconfig (YAML or JSON) and select a context.

    Args:
        data: Content of the file, at most 1 MiB.
        context: Name of the context. Default: its `current-context`, or its only context.

    Raises:
        CredentialsError: The kubeconfig cannot be used. The message names the field and contains no credential.
    """
    file = _decode(data)
    contexts = {entry.name: entry.context for entry in file.contexts or ()}
    name = context or file.current_context
    if not name and len(contexts) == 1:
        name = next(iter(contexts))
    if name not in contexts:
        raise CredentialsError(f"kubeconfig: {_no_context(name, context, sorted(contexts))}")
    chosen = contexts[name]
    clusters = {entry.name: entry.cluster for entry in file.clusters or ()}
    users = {entry.name: entry.user or User() for entry in file.users or ()}
    if chosen.cluster not in clusters:
        raise CredentialsError(
            f"kubeconfig: context {name!r} names cluster {chosen.cluster!r}, which is not in clusters"
        )
    if chosen.user and chosen.user not in users:
        raise CredentialsError(
            f"kubeconfig: context {name!r} names user {chosen.user!r}, which is not in users"
        )
    user = users.get(chosen.user, User())
    if user.username:
        raise CredentialsError(
            "kubeconfig: field user.username: Kubernetes does not accept passwords; use a token or a certificate"
        )
    return Kubeconfig(clusters[chosen.cluster], user)


def _no_context(name: str, asked: str | None, known: Sequence[str]) -> str:
    if not known:
        return (
            "field contexts: it is missing or empty; is this a kubeconfig, with clusters, users and contexts?"
        )
    if asked:
        return f"there is no context {name!r}; known ones are {', '.join(known)}"
    wrong = f"there is no context {name!r}" if name else "it is missing"
    return f"field current-context: {wrong}; set it to one of {', '.join(known)}"


def _decode(data: bytes) -> _File:
    if len(data) > MAX_BYTES:
        raise CredentialsError(
            f"kubeconfig: {len(data)} bytes long; a kubeconfig has at most {MAX_BYTES} bytes"
        )
    try:
        plain = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        # The error's own text repeats the line, which may hold a key.
        raise CredentialsError(f"kubeconfig: not YAML{where}; check its quoting and indentation") from None
    except (UnicodeDecodeError, RecursionError):
        raise CredentialsError("kubeconfig: not YAML text") from None
    if plain is None:
        raise CredentialsError("kubeconfig: it is empty; give one with clusters, users and contexts")
    if not isinstance(plain, dict):
        raise CredentialsError("kubeconfig: it is not a kubeconfig: it has no clusters, users and contexts")
    try:
        return msgspec.convert(plain, _File)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"kubeconfig: {error}") from None


@contextmanager
def named(file: Path | str) -> Iterator[None]:
    """Add the name of the file to the message of a CredentialsError that is raised within the context.

    Args:
        file: The kubeconfig file.

    Raises:
        CredentialsError: The error with the name of the file.
    """
    try:
        yield
    except CredentialsError as error:
        text = str(error)
        if not text.startswith("kubeconfig: ") or str(file) in text:
            raise
        raise CredentialsError(f"kubeconfig {file}: {text.removeprefix('kubeconfig: ')}") from None


def server_url(server: str) -> str:
    """Return the URL of the `server` of a kubeconfig, without a trailing slash.

    VirtualCluster wrote DNS names in IPv6 brackets (`https://[apiserver-svc.ns]:6443`). The brackets are removed.

    Raises:
        CredentialsError: It is not an http or https URL of a host, an optional port and an optional path.
    """
    match = _SERVER.fullmatch(server.strip())
    if match is None:
        raise CredentialsError(
            f"kubeconfig: field cluster.server: {server!r} is not a URL like https://host:6443"
        )
    scheme, host, port, path = match.groups()
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1].partition("%")[0])
        except ValueError:
            host = host[1:-1]
    return f"{scheme}://{host}{f':{port}' if port else ''}{(path or '').rstrip('/')}"
