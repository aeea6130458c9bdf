"""The audit filter: begins the audit trail of a request. The server completes the trail once the answer is sent.

Behaviour: apiserver's `endpoints/filters/audit.go`.
"""

from vcsync.apiserver.audit import request_log
from vcsync.apiserver.audit.auditor import Auditor
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo


def begin_audit(
    auditor: Auditor | None, identity: Identity, incoming: Incoming, info: RequestInfo, caller: Caller | None
) -> None:
    """Begin the audit trail of a request, if there is an audit log. `caller` None: the credentials were refused."""
    if auditor is not None:
        request_log.begin(auditor, incoming, info, caller, identity.exists)
        if caller is not None and caller.home:
            request_log.admitted(incoming.audit, caller)
