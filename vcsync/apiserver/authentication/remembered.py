"""Sizes of what caches of verified credentials hold: a tenant chooses the texts in its certificates and tokens. Pure."""

from collections.abc import Iterable
from sys import getsizeof

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import Claims

MAX_REMEMBERED = 16 * 2**20
"""Bytes of one cache of verified credentials, which is room for about 16,000 usual ones."""
_ENTRY = 1024
"""Bytes of one of them without its texts."""
_REFERENCE = 8


def texts_bytes(texts: Iterable[str]) -> int:
    """Return the memory in bytes of texts in a tuple."""
    return sum(_REFERENCE + getsizeof(each) for each in texts)


def user_bytes(user: User) -> int:
    """Return the approximate memory in bytes of a cached credential of a user."""
    extra = sum(_ENTRY // 4 + getsizeof(key) + texts_bytes(values) for key, values in user.extra.items())
    # The caller of a certificate has a second tuple of the same groups.
    groups = texts_bytes(user.groups) + _REFERENCE * len(user.groups)
    return _ENTRY + texts_bytes((user.name, user.uid)) + groups + extra


def claims_bytes(claims: Claims) -> int:
    """Return the approximate memory in bytes of the cached claims of a ServiceAccount token."""
    references = (claims.account, claims.pod, claims.secret, claims.node)
    named = [text for each in references if each is not None for text in (each.name, each.uid)]
    return _ENTRY + texts_bytes((claims.namespace, claims.id, *named, *(claims.audiences or ())))


def answer_bytes(found: Identified | None) -> int:
    """Return the approximate memory in bytes of a cached answer of the webhook: None, it does not accept the token."""
    return _ENTRY if found is None else user_bytes(found.user) + texts_bytes(found.audiences or ())
