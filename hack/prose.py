"""Find words in documents, comments, docstrings and messages that readers had to read twice.

python -m hack.prose [FILE ...]        without files: the whole checkout. Exits 1 if it finds one.

The list holds what the text no longer contains, so that it does not return. A change that removes a word adds it.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("vcsync/**/*.py", "hack/**/*.py", "docs/*.md", "*.md")
"""Files that are looked at. docs/reference quotes others."""
VAGUE = re.compile(r"(What|Who|Whose|Which|Where|How|When|Why|Of)\b")
"""Beginning of a docstring that does not name its subject."""
VAGUE_IN_MODULE = re.compile(rf"{VAGUE.pattern}|Whether\b")
"""The same for modules. A flag or a predicate may begin with `Whether`."""
LIST = Path(__file__).resolve()
"""This file names the words in order to forbid them."""

BANNED: tuple[tuple[str, str], ...] = (
    (r"anew", "again"),
    (r"as (?:it|they) fares?", "in which state it is"),
    (r"(?:as|so) (?:few|far) as will do", "as necessary"),
    (r"borne", "tolerated"),
    (r"by and by", "gradually"),
    (r"c[ao]mes? about", "happens"),
    (r"carried to", "synced to"),
    (r"cut off half way", "interrupted"),
    (r"deal(?:s|t|ing)? out", "allocate"),
    (r"driven off", "evicted"),
    (r"fare[ds]?", "its state"),
    (r"for ever", "forever"),
    (r"for want of", "without"),
    (r"has come about", "has happened"),
    (r"has its say", "decides"),
    (r"(?:hangs?|hung) up", "close the connection"),
    (r"(?:hitherto|lest|thence|thereby|whence)", "the plain word"),
    (r"how (?:it|they) (?:fares?|stands?)", "its state"),
    (r"in hand", "in progress"),
    (r"heeded?", "applies, or is not ignored"),
    (r"in its turn", "in one turn"),
    (r"is no more", "is gone"),
    (r"(?:is|are) dear", "is expensive"),
    (r"keeps? nobody", "does not delay others"),
    (r"lately", "recently"),
    (r"mend(?:s|ed)?", "fix"),
    (r"nobody would be kept", "nobody else is delayed"),
    (r"of its own accord", "by itself"),
    (r"of whom", "whose"),
    (r"pretend(?:s|ed|ing)?", "simulate"),
    (r"puts? off", "postpone"),
    (r"put right", "repaired"),
    (r"rarer", "less often"),
    (r"shakes? hands", "do a handshake"),
    (r"signs? of life", "heartbeat"),
    (r"slow lane", "offload process"),
    (r"so many seconds are over", "after this many seconds"),
    (r"so much later", "seconds until ..."),
    (r"(?:to|by) whom", "name the subject"),
    (r"stands? twice", "occurs twice"),
    (r"takes? note", "record"),
    (r"told of (?:below|here)", "described below"),
    (r"what came of", "the result of"),
    (r"what stands", "what exists"),
    (r"who asks", "the caller"),
    (r"worthless", "invalid"),
)
"""Regular expression of whole words, in any case, and what to write instead."""


class Finding(NamedTuple):
    """One place to rewrite."""

    path: Path
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}: write {self.instead!r}"


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    given = sys.argv[1:] if arguments is None else arguments
    found = list(findings([Path(each) for each in given] or sources(ROOT)))
    for each in found:
        print(each)
    return 1 if found else 0


def sources(root: Path) -> list[Path]:
    """Return the files of a checkout that hold prose, in order."""
    return sorted({path for pattern in SOURCES for path in root.glob(pattern)} - {LIST})


def findings(files: Iterable[Path]) -> Iterator[Finding]:
    """Yield every banned word of some files."""
    for path in files:
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            for line, first in vague(source):
                yield Finding(path, line, first, "a noun phrase or a verb phrase")
        for line, text in texts(source, path.suffix):
            for pattern, instead in BANNED:
                for match in re.finditer(rf"\b{pattern}\b", text, re.IGNORECASE):
                    yield Finding(path, line + text.count("\n", 0, match.start()), match[0], instead)


def vague(source: str) -> Iterator[tuple[int, str]]:
    """Yield the first lines of docstrings, those of values included, that do not name their subject, as (line, text)."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                first = text.lstrip().partition("\n")[0]
                if (VAGUE_IN_MODULE if node is tree.body[0] else VAGUE).match(first):
                    yield node.lineno, first


def texts(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file as (first line, text).

    Prose is, in Python, comments and strings; in Markdown, lines outside of blocks of code.
    """
    yield from _python(source) if suffix == ".py" else _markdown(source)


def _python(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


if __name__ == "__main__":
    sys.exit(main())
