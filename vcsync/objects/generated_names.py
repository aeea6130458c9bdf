"""Names that API servers generate for objects with `metadata.generateName`. Pure."""

from typing import Final

LONGEST_NAME: Final = 63
SUFFIX: Final = 5
"""Number of random characters at the end."""
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of the suffix, as in `k8s.io/apimachinery/pkg/util/rand`: no vowels, and none that looks like another."""


def is_generated(name: str, prefix: str) -> bool:
    """Return whether an API server has generated a name, so that no later object gets the same one.

    The prefix alone does not say that. A StatefulSet gives its Pods their names, and a `generateName` as well
    (`newStatefulSetPod` in `pkg/controller/statefulset`). A suffix of digits alone may be the ordinal of such a Pod. It counts as
    given, though one of 900 generated names ends like that.

    Args:
        name: the object's name; empty if the API server is to generate it.
        prefix: its `metadata.generateName`; empty if it has none.
    """
    stem = prefix[: LONGEST_NAME - SUFFIX]
    suffix = name[len(stem) :]
    if not name:
        return True
    given = not stem or not name.startswith(stem) or len(suffix) != SUFFIX
    return not given and not suffix.isdecimal() and all(each in ALPHABET for each in suffix)
