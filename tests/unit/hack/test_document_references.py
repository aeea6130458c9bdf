"""Every file, function and link that a document names exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")))

STEP = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
ANSWER = re.compile(r"^\| [^|`][^|]* \| `([^`|]+)` \|$", re.MULTILINE)
PLACEHOLDER = re.compile(r"NAME|FAMILY|GROUP|KIND")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|toml|txt|jsonl|json|gz|yaml))?")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def text_of(document: str) -> str:
    """Return a document's text without blocks of code."""
    return re.sub(
        r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def files_in(text: str) -> Iterator[str]:
    """Yield the paths of files and folders that a text names as code."""
    for code in CODE.findall(text):
        if FILE.fullmatch(code) and code.split("/")[0] in ROOMS and not PLACEHOLDER.search(code):
            yield code


ROOMS = frozenset(
    {"vcsync", "hack", "tests", "docs", "config", "requirements-dev.lock"}
    | {each.name for each in (ROOT / "vcsync").iterdir() if each.is_dir()}
)


def stands(path: str) -> bool:
    """Return whether a path exists below the checkout or, as documents shorten it, below vcsync/."""
    return (ROOT / path).exists() or (ROOT / "vcsync" / path).exists()


def defines(source: str, dotted: str) -> bool:
    """Return whether a module's source defines a function, class or method with this name."""
    body: list[ast.stmt] = ast.parse(source).body
    for name in dotted.split("."):
        found = [
            each
            for each in body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return True


@pytest.mark.parametrize("document", sorted(set(DOCUMENTS) - {"CHANGELOG.md"}))
def test_the_files_that_a_document_names_exist(document: str) -> None:
    assert [path for path in files_in(text_of(document)) if not stands(path)] == []


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/design.md", "docs/extending.md"])
def test_the_documents_about_code_name_files(document: str) -> None:
    assert len(list(files_in(text_of(document)))) > 15


def test_the_steps_of_the_walks_name_existing_functions() -> None:
    steps = STEP.findall(text_of("docs/architecture.md"))
    assert len(steps) > 40
    wrong = [
        f"{path}: {name}"
        for path, name in steps
        if not defines((ROOT / path).read_text(encoding="utf-8"), name)
    ]
    assert wrong == []


def test_each_question_is_answered_by_one_file() -> None:
    section = text_of("docs/architecture.md").partition("## Where is ...?")[2].partition("\n## ")[0]
    answers = ANSWER.findall(section)
    assert len(answers) >= 20
    assert [path for path in answers if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("document", sorted(DOCUMENTS))
def test_the_links_of_a_document_lead_to_files(document: str) -> None:
    links = [each for each in LINK.findall(text_of(document)) if "://" not in each]
    folder = (ROOT / document).parent
    assert [each for each in links if not (folder / each).exists()] == []


def test_a_missing_name_is_found() -> None:
    source = "class Chain:\n    async def handle(self): ...\ndef alone(): ...\n"
    assert defines(source, "Chain.handle")
    assert defines(source, "alone")
    assert not defines(source, "Chain.alone")
    assert not defines(source, "handle")
    assert list(files_in("see `kube/local.py`, `kube/absent.py`, `apps/v1` and `vcsync up`")) == [
        "kube/local.py",
        "kube/absent.py",
    ]
    assert not stands("kube/absent.py")
