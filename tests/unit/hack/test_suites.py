"""The suites of tests: every real test is in one of them, flaky tests are shown, and results belong to a tree."""

import json
import subprocess
from pathlib import Path

import pytest

from hack.checkout import ROOT
from hack.suites import check, outcomes
from hack.suites.catalog import CORE_TESTS, OTHER_TESTS, SUITES, Suite
from hack.suites.census import MOST, Census, described
from hack.suites.results import Result, Results, table
from hack.suites.run import MOST_FLAKY, problem, run
from hack.suites.snapshot import clone, tree

OTHERS = tuple(suite for suite in SUITES if suite.paths and suite.arguments != CORE_TESTS)


def members(suite: Suite) -> set[Path]:
    """Return the test modules of a suite."""
    found: set[Path] = set()
    for path in map(Path, suite.paths):
        found.update(
            [path] if path.suffix else (each.relative_to(ROOT) for each in (ROOT / path).rglob("test_*.py"))
        )
    return found


def test_every_real_test_module_is_in_exactly_one_suite_without_settings() -> None:
    plain = [suite for suite in OTHERS if not suite.environment and suite.real]
    listed = [module for suite in plain for module in members(suite)]
    existing = {path.relative_to(ROOT) for path in (ROOT / "tests/real").rglob("test_*.py")}
    assert sorted(listed) == sorted(existing)


def test_suites_that_run_beside_the_core_leave_its_tests_out() -> None:
    for suite in OTHERS:
        core = any("pytest.mark.core" in (ROOT / module).read_text() for module in members(suite))
        if suite.real and core and not suite.environment:
            assert suite.arguments == OTHER_TESTS, suite.name


def test_phases_of_a_test_become_one_outcome() -> None:
    phases = [
        {"test": "a", "outcome": "passed", "seconds": 1, "text": ""},
        {"test": "a", "outcome": "failed", "seconds": 2, "text": "why"},
        {"test": "b", "outcome": "skipped", "seconds": 0, "text": ""},
    ]
    first, second = outcomes.collect(map(json.dumps, phases))
    assert (first.failed, first.seconds, first.text) == (True, 3, "why")
    assert (second.failed, second.skipped) == (False, True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a test that fails the first time, one that fails always, and one that passes."""
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "hack").symlink_to(ROOT / "hack")
    (root / "test_some.py").write_text(
        "from pathlib import Path\n"
        "def test_passes(): pass\n"
        "def test_fails_first():\n"
        "    mark = Path(__file__).with_name('mark')\n"
        "    again = mark.exists(); mark.touch()\n"
        "    assert again, 'the first time'\n"
        "def test_fails_always(): assert False\n"
        "def test_is_skipped():\n    import pytest; pytest.skip('why')\n"
    )
    return root


def runs(checkout: Path, tmp_path: Path, *names: str, real: bool = True, servers: int = MOST) -> Result:
    paths = tuple(f"test_some.py::{name}" for name in names)
    suite = Suite("some", "", "verify", paths, real=real, servers=servers)
    return run(suite, tmp_path / "results", shown=False, root=checkout)


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hack.suites.run.ensure", lambda *_: {})


def test_a_test_that_passes_the_second_time_is_shown_as_flaky(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = runs(checkout, tmp_path, "test_passes", "test_fails_first")
    assert (result.green, result.passed, result.flaky) == (True, 2, ("test_some.py::test_fails_first",))
    shown = capsys.readouterr().out
    assert "FLAKY test_some.py::test_fails_first" in shown
    assert "the first time" in shown


def test_a_test_that_fails_twice_fails_its_suite_and_keeps_the_files(checkout: Path, tmp_path: Path) -> None:
    result = runs(checkout, tmp_path, "test_passes", "test_fails_always")
    assert (result.green, result.failed) == (False, ("test_some.py::test_fails_always",))
    assert (tmp_path / "results/some").exists()


@pytest.mark.parametrize(("servers", "green"), [(MOST, False), (MOST + 1, True)])
def test_a_suite_fails_with_more_servers_than_it_may_run(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: int, green: bool
) -> None:
    class Crowded(Census):
        most = property(lambda _: MOST + 1, lambda _, __: None)

    monkeypatch.setattr("hack.suites.run.Census", Crowded)
    assert runs(checkout, tmp_path, "test_passes", servers=servers).green is green


def test_unit_tests_get_no_second_chance(checkout: Path, tmp_path: Path) -> None:
    assert not runs(checkout, tmp_path, "test_passes", "test_fails_first", real=False).green


def test_a_skipped_test_fails_its_suite(checkout: Path, tmp_path: Path) -> None:
    result = runs(checkout, tmp_path, "test_passes", "test_is_skipped")
    assert result.problem == "skipped: test_some.py::test_is_skipped"


@pytest.mark.parametrize(
    ("code", "count", "failed", "flaky", "why"),
    [
        (0, 3, 0, 0, ""),
        (1, 3, 1, 0, ""),
        (0, 9, 0, MOST_FLAKY, ""),
        (0, 9, 0, MOST_FLAKY + 1, "4 flaky tests, more than 3"),
        (5, 0, 0, 0, "no test ran"),
        (3, 2, 0, 0, "pytest ended with 3"),
    ],
)
def test_what_makes_a_suite_red(code: int, count: int, failed: int, flaky: int, why: str) -> None:
    assert problem(code, count, ["x"] * failed, ["x"] * flaky, []) == why


def test_results_are_kept_for_their_tree_only(tmp_path: Path) -> None:
    result = Result("pool", 5, ("a",), (), "", 2.0, 5, "log")
    Results("one", tmp_path).save(result)
    assert Results("one", tmp_path).load("pool") == result
    assert Results("two", tmp_path).load("pool") is None
    assert "FAILED" in table([result])


def test_the_tree_changes_with_every_file_and_a_clone_has_it(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=root, check=True)

    git("init", "--quiet")
    git("config", "user.name", "x")
    git("config", "user.email", "x@x")
    (root / "a").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    before = tree(root)
    (root / "a").write_text("2")
    (root / "new").write_text("3")
    after = tree(root)
    copy = clone(after, tmp_path / "copy", root)
    assert before != after
    assert ((copy / "a").read_text(), (copy / "new").read_text()) == ("2", "3")
    (root / "a").write_text("1")
    (root / "new").unlink()
    assert tree(root) == before


EXISTING = {
    "tests/unit/syncer",
    "tests/unit/syncer/kinds",
    "tests/unit/hack",
    "tests/unit/kube/test_a.py",
    "tests/unit/kube",
}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["vcsync/syncer/kinds/pod.py"], ["tests/unit/syncer/kinds"]),
        (["vcsync/syncer/kinds/pod.py", "vcsync/syncer/engine.py"], ["tests/unit/syncer"]),
        (["vcsync/syncer/engine/x.py"], ["tests/unit/syncer"]),
        (["tests/unit/kube/test_a.py"], ["tests/unit/kube/test_a.py"]),
        (["tests/unit/kube/test_gone.py"], ["tests/unit/kube"]),
        (["hack/parity/kinds.py"], ["tests/unit/hack"]),
        (["docs/design.md", "tests/real/test_up.py"], []),
        (["pyproject.toml"], ["tests/unit"]),
    ],
)
def test_the_tests_of_changed_files(changed: list[str], chosen: list[str]) -> None:
    assert check.tests_of(changed, EXISTING) == chosen


def test_the_census_names_the_cluster_worker_and_test_of_a_server_of_its_run() -> None:
    arguments = ["--secure-port=1", "--etcd-servers=http://localhost:1", "--etcd-prefix=/acme"]
    variables = (
        b"A=b\0VCSYNC_RUN=r\0PYTEST_CURRENT_TEST=tests/x.py::test_y (setup)\0PYTEST_XDIST_WORKER=gw1\0"
    )
    assert described(arguments, variables, "VCSYNC_RUN=r") == (
        "--etcd-prefix=/acme --etcd-servers=http://localhost:1 "
        "PYTEST_XDIST_WORKER=gw1 PYTEST_CURRENT_TEST=tests/x.py::test_y (setup)"
    )


def test_the_census_ignores_servers_of_other_runs() -> None:
    assert not described(["--etcd-prefix=/acme"], b"VCSYNC_RUN=other\0", "VCSYNC_RUN=r")
