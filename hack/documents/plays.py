"""What surrounds each document's commands: clusters that a reader has, and what is done instead of a command. Data only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

DOCUMENTS = (
    "README.md",
    "docs/configuration.md",
    "docs/conformance.md",
    "docs/controlplane.md",
    "docs/operating.md",
    "docs/performance.md",
)

SERVES = re.compile(r"(make up|vcsync up|vcsync run)\b")
"""Commands that go on until Ctrl-C, unless `&` puts them beside the shell."""

TOO_LONG = (
    (re.compile(r"make (test|bench|conformance\S*|chaos|fuzz|mutants|attacks)\b"), "make --dry-run {rest}"),
    (re.compile(r"python -m hack\.\S+"), "{command} --help"),
)
"""Commands that take many minutes, and what shows that they are spelled as they must be."""


@dataclass(frozen=True)
class Play:
    """How a document is played.

    Attributes:
        clusters: real API servers that the reader has, as NAME.kubeconfig in the folder.
        borrowed: files that the reader has from another document, by name.
        before: commands that a reader has typed elsewhere, by the beginning of the command that they precede.
        instead: what is typed instead of a command that cannot work here.
    """

    clusters: tuple[str, ...] = ()
    borrowed: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)


PLAYS: Mapping[str, Play] = {
    "README.md": Play(
        clusters=("meta", "r1", "r2", "east", "acme"),
        borrowed={"vcsync.yaml": "docs/configuration.md"},
        # There is no network to fetch packages from; tests/real/test_package.py installs the package.
        instead={"pip install .": "make environment && export PATH=$PWD/.venv/bin:$PATH"},
        before={"vcsync install": ("rm -rf vcsync-data",)},
    ),
    "docs/configuration.md": Play(clusters=("east",)),
    "docs/operating.md": Play(
        clusters=("meta", "r1", "acme", "east", "west"),
        before={
            "vcsync super list": ("vcsync run all --kubeconfigs ./roles &",),
            "vcsync run all": (
                "kill %1; wait %1 || true",
                "vcsync super add r1 --kubeconfig r1.kubeconfig",
                "vcsync tenant add acme --kubeconfig acme.kubeconfig",
            ),
            "vcsync status --endpoint": (
                "vcsync run all --kubeconfigs ./roles &",
                "kubectl --kubeconfig acme.kubeconfig run web-0 --image=nginx",
            ),
        },
    ),
}


def play_of(document: str) -> Play:
    """Return what surrounds a document's commands."""
    return PLAYS.get(document, Play())


def typed(command: str, play: Play) -> str:
    """Return what is typed for a command of a document."""
    if command in play.instead:
        return play.instead[command]
    for pattern, instead in TOO_LONG:
        if pattern.match(command):
            return instead.format(command=command, rest=command.partition(" ")[2])
    return command


def earlier(command: str, play: Play) -> tuple[str, ...]:
    """Return the commands that a reader has typed elsewhere before this one."""
    return next((commands for start, commands in play.before.items() if command.startswith(start)), ())
