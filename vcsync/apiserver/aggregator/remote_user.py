"""The headers that tell an aggregated API server who calls. Pure.

Behaviour: client-go's `SetAuthProxyHeaders`. Upstream sends every text as it is. Here, texts are refused that would arrive
as others, because spaces around the value of a header do not arrive.
"""

from vcsync.apimachinery.errors import forbidden
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.operator.front_proxy import EXTRA, GROUP, UID, USER
from vcsync.gateway.headers import Pairs
from vcsync.gateway.impersonation import encoded_key, is_clean

CHECKER = User("system:kube-aggregator", groups=("system:masters",))
"""The user whose requests find out whether an aggregated API server is available."""
_UNCLEAN = "its name, groups and extra must not be empty or contain control characters"


def remote_user_headers(user: User) -> Pairs:
    """Return the X-Remote-* headers for exactly this user.

    Raises:
        StatusError: 403, the user cannot be written as headers.
    """
    headers = [(USER, user.name), *((GROUP, group) for group in user.groups)]
    if user.uid:
        headers.append((UID, user.uid))
    for key, values in user.extra.items():
        if not (encoded := encoded_key(key)):
            raise forbidden("users", "", user.name, "the keys of its extra must not be empty or malformed")
        headers += [(f"{EXTRA}{encoded}", value) for value in values]
    if not all(is_clean(value) for _, value in headers):
        raise forbidden("users", "", user.name, _UNCLEAN)
    return headers
