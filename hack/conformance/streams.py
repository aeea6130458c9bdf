"""The official tests of logs, exec, attach, port-forward and cp: which there are, and which run on real nodes. Pure.

Every test in the scope is either in `STREAMS`, with its usual seconds, or in a group of `STREAMS_EXCLUDED`, with the reason.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hack.conformance.tests import FOLDER, E2eTest, Exclusion, exclusion_of

STREAMS = FOLDER / "streams.tsv"
"""Tests that run: seconds and name, tab-separated."""
STREAMS_EXCLUDED = FOLDER / "streams_excluded.tsv"
"""Tests that do not run: group, pattern, reason, tab-separated."""
STREAMS_EMBEDDED = FOLDER / "streams_embedded.tsv"
"""Tests of `STREAMS` that do not run for an embedded tenant: group, pattern, reason, tab-separated."""

_SCOPE = (
    (r"e2e/kubectl/(logs|exec|portforward|debug)\.go", ""),
    (r"e2e/kubectl/kubectl\.go", r"Simple pod|Kubectl copy|cluster-info dump"),
    (r"e2e/common/node/pods\.go", r"over websockets"),
    (r"e2e/common/node/ephemeral_containers\.go", ""),
    (r"e2e/common/node/kubelet\.go", r"output to logs"),
    (r"e2e/node/kubelet\.go", r"\[Feature:NodeLogQuery\]|\[Feature:PodLogsQuerySplitStreams\]"),
    (r"e2e/network/proxy\.go", ""),
)
"""Patterns of a source file and of the names in it."""
_LISTED = re.compile(r"^\s*\S+/test/(?P<file>e2e/\S+\.go):\d+: (?P<name>\[.*\S)\s*$")
"""A line of `e2e.test --list-tests`."""


@dataclass(frozen=True)
class Listed:
    """A test of the test program."""

    file: str
    """Source file below `test/`."""
    name: str


def read_listing(text: str) -> list[Listed]:
    """Read the output of `e2e.test --list-tests`."""
    matches = map(_LISTED.match, text.splitlines())
    return [Listed(match["file"], match["name"]) for match in matches if match]


def in_scope(listed: Iterable[Listed]) -> list[str]:
    """Return the names of the tests of streams."""
    return [
        each.name
        for each in listed
        if any(re.search(file, each.file) and re.search(name, each.name) for file, name in _SCOPE)
    ]


def differences(scope: Sequence[str], run: Sequence[E2eTest], excluded: Sequence[Exclusion]) -> list[str]:
    """Compare the lists with the tests that the test program has; return a line for each difference.

    Args:
        scope: names of the tests of streams that the test program has.
        run: tests that run.
        excluded: groups of tests that do not run.
    """
    names = {test.name for test in run}
    left_out = {name: group for name in scope if (group := exclusion_of(E2eTest(name, 0), excluded))}
    used = {group.group for group in left_out.values()}
    return [
        *(f"no test of the program has this name: {name}" for name in sorted(names.difference(scope))),
        *(f"neither runs nor is left out: {name}" for name in scope if name not in names | left_out.keys()),
        *(f"runs and is left out: {name}" for name in scope if name in names and name in left_out),
        *(f"leaves no test out: {group.group}" for group in excluded if group.group not in used),
    ]
