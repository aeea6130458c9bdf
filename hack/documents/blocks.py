"""Code blocks of a Markdown text. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FILE = re.compile(r"# ([\w.-]+\.(?:yaml|py))\b")
_FENCE = re.compile(r"^\s*```(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced code block.

    Attributes:
        line: of its first fence, from 1.
        language: the word after the fence: `console`, `yaml`, ...; empty if there is none.
        text: the lines between the fences.
    """

    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """Return the file name in the first line of the block's content."""
        named = _FILE.match(self.text)
        return named.group(1) if named else None

    def commands(self) -> Iterator[str]:
        """Yield the commands: lines after `$ `, with continued ones joined, without comments."""
        joined = self.text.replace("\\\n", " ")
        for line in joined.splitlines():
            if line.startswith("$ "):
                yield re.sub(r"\s+#\s.*$", "", line.removeprefix("$ ")).strip()


def blocks(text: str) -> Iterator[Block]:
    """Yield the code blocks of a Markdown text, from top to bottom.

    Raises:
        ValueError: The last block does not end.
    """
    inside: list[str] | None = None
    language, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, language, start = [], fence.group(1).strip(), number
        else:
            yield Block(start, language, "".join(f"{each}\n" for each in inside))
            inside = None
    if inside is not None:
        raise ValueError(f"the code block that begins in line {start} does not end")


def files(text: str) -> dict[str, str]:
    """Return the contents of files in a Markdown text, by name."""
    return {block.file: block.text for block in blocks(text) if block.file is not None}
