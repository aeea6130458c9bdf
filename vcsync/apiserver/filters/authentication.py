"""The authentication filter: which caller the credentials belong to.

Behaviour: apiserver's `endpoints/filters/authentication.go`.
"""

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.audit.auditor import Auditor
from vcsync.apiserver.filters.audit import begin_audit
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.filters.websocket_token import take_token
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo


async def authenticate(
    identity: Identity, auditor: Auditor | None, incoming: Incoming, info: RequestInfo
) -> Caller:
    """Return the caller. The audit log records refused credentials without a user.

    Raises:
        StatusError: 401.
    """
    try:
        take_token(incoming)
        authorization = incoming.headers.get("Authorization")
        return await identity.authenticate(incoming.certificate, authorization, info.tenant)
    except StatusError:
        begin_audit(auditor, identity, incoming, info, None)
        raise
