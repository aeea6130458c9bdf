"""The scope of the official tests of streams, and their comparison with what the test program has."""

import re

import pytest

from hack.conformance.streams import (
    STREAMS,
    STREAMS_EMBEDDED,
    STREAMS_EXCLUDED,
    Listed,
    differences,
    in_scope,
    read_listing,
)
from hack.conformance.tests import E2eTest, Exclusion, exclusion_of, read_exclusions, read_tests

RUN = read_tests(STREAMS.read_text())
EXCLUDED = read_exclusions(STREAMS_EXCLUDED.read_text())

LOGS = "[sig-cli] Kubectl logs logs should be able to retrieve and filter logs [Conformance]"
EXEC = "[sig-cli] Kubectl client Simple pod should support exec"
LABEL = "[sig-cli] Kubectl client Kubectl label should update the label on a resource [Conformance]"
NODE_LOGS = "[sig-network] Proxy version v1 should proxy logs on node using proxy subresource"
LISTING = f"""The following spec names can be used with 'ginkgo run --focus/skip':
    k8s.io/kubernetes@v1.36.3/test/e2e/kubectl/logs.go:167: {LOGS}
    k8s.io/kubernetes@v1.36.3/test/e2e/kubectl/kubectl.go:440: {EXEC}
    k8s.io/kubernetes@v1.36.3/test/e2e/kubectl/kubectl.go:1658: {LABEL}

"""


def excluding(pattern: str) -> Exclusion:
    return Exclusion("a group", re.compile(pattern), "a reason")


def test_a_listing_has_the_file_and_the_name_of_each_test() -> None:
    assert read_listing(LISTING) == [
        Listed("e2e/kubectl/logs.go", LOGS),
        Listed("e2e/kubectl/kubectl.go", EXEC),
        Listed("e2e/kubectl/kubectl.go", LABEL),
    ]


def test_the_scope_follows_from_files_and_names() -> None:
    assert in_scope(read_listing(LISTING)) == [LOGS, EXEC]


def test_lists_that_divide_the_scope_have_no_difference() -> None:
    assert differences([LOGS, EXEC], [E2eTest(LOGS, 1)], [excluding("exec$")]) == []


@pytest.mark.parametrize(
    ("run", "excluded", "expected"),
    [
        ([LOGS], [], f"neither runs nor is left out: {EXEC}"),
        ([LOGS, EXEC, LABEL], [], f"no test of the program has this name: {LABEL}"),
        ([LOGS, EXEC], [excluding("exec$")], f"runs and is left out: {EXEC}"),
        ([LOGS, EXEC], [excluding("attach")], "leaves no test out: a group"),
    ],
)
def test_each_difference_is_named(run: list[str], excluded: list[Exclusion], expected: str) -> None:
    assert differences([LOGS, EXEC], [E2eTest(name, 1) for name in run], excluded) == [expected]


def test_a_program_without_tests_differs_from_the_lists() -> None:
    assert len(differences([], RUN, EXCLUDED)) == len(RUN) + len(EXCLUDED)


def test_the_lists_have_each_test_once_and_in_one_of_them() -> None:
    assert len({test.name for test in RUN}) == len(RUN) > 0
    assert not [test.name for test in RUN if exclusion_of(test, EXCLUDED)]
    assert exclusion_of(E2eTest(NODE_LOGS, 1), EXCLUDED) is not None


@pytest.mark.parametrize(
    "group", read_exclusions(STREAMS_EMBEDDED.read_text()), ids=lambda group: group.group
)
def test_every_group_that_an_embedded_tenant_lacks_has_tests(group: Exclusion) -> None:
    assert any(exclusion_of(test, [group]) for test in RUN)
