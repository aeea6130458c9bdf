"""Checks the API server of an external control plane before it is stored. Pure."""

from vcsync.api.rbac import readable_problem
from vcsync.apimachinery.errors import bad_request
from vcsync.apiserver.tenants.records import Upstream
from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import server_url
from vcsync.kube.tls import client_context
from vcsync.patterns.linear import linear

_TOKEN = linear(r"[!-~]+")


def check_upstream(upstream: Upstream) -> None:
    """Return if an API server can be called as it is described. The messages do not repeat the token.

    Raises:
        StatusError: 400.
    """
    try:
        url = server_url(upstream.server)
        client_context(ca=upstream.authority.encode())
    except CredentialsError as error:
        raise bad_request(f"upstream: {error}") from error
    if not url.startswith("https://"):
        raise bad_request("upstream: the URL of the server must begin with https://")
    if not _TOKEN.fullmatch(upstream.token):
        raise bad_request("upstream: the token is not one word of printable characters")
    for each in upstream.readable:
        if problem := readable_problem(each):
            raise bad_request(f"upstream: readable: {each!r}: {problem}")
