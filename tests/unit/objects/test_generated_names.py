"""A name counts as generated only if no later object can get it."""

import pytest

from vcsync.objects.generated_names import ALPHABET, LONGEST_NAME, SUFFIX, is_generated

LONG = "a" * 70 + "-"


@pytest.mark.parametrize(
    ("name", "prefix", "generated"),
    [
        pytest.param("web-7d4b9-x2kfz", "web-7d4b9-", True, id="Pod of a ReplicaSet"),
        pytest.param("web-0", "web-", False, id="Pod of a StatefulSet"),
        pytest.param("web-24567", "web-", False, id="Pod of a StatefulSet with an ordinal of five digits"),
        pytest.param("web-10240", "web-", False, id="ordinal with digits that are in no suffix"),
        pytest.param("web", "", False, id="bare Pod"),
        pytest.param("x2kfz", "", False, id="bare Pod whose name looks like a suffix"),
        pytest.param("web-abcde", "web-", False, id="name that its creator has given"),
        pytest.param("db-x2kfz", "web-", False, id="name without the prefix"),
        pytest.param("web-x2kfzb", "web-", False, id="name with a longer suffix"),
        pytest.param("", "web-", True, id="name that the API server is to generate"),
        pytest.param("a" * (LONGEST_NAME - SUFFIX) + "x2kfz", LONG, True, id="long prefix, which was cut"),
    ],
)
def test_a_prefix_alone_makes_no_generated_name(name: str, prefix: str, generated: bool) -> None:
    assert is_generated(name, prefix) is generated


def test_a_suffix_has_no_vowels() -> None:
    assert not set(ALPHABET) & set("aeiou013")
