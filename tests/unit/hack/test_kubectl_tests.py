"""The runner of kubectl's own tests."""

from pathlib import Path

from hack.kubectl_tests import sources

SCRIPT = """#!/usr/bin/env bash
# record_command run_kubectl_tests
    if kube::test::if_supports_resource "${secrets}" ; then
      record_command run_secrets_test
    fi
  record_command run_swagger_tests
  record_command run_swagger_tests
  record_command "run_${pkg}_tests"
"""


def test_groups_are_the_called_functions_in_order() -> None:
    assert sources.groups(SCRIPT) == ("secrets_test", "swagger_tests")


def test_the_copy_of_a_read_only_module_can_be_written_and_run(tmp_path: Path) -> None:
    module, kubectl = tmp_path / "module", tmp_path / "kubectl"
    kubectl.touch()
    for each in sources.FOLDERS:
        (module / each).mkdir(parents=True)
    script = module / sources.SCRIPT
    script.write_text(SCRIPT)
    script.chmod(0o444)
    script.parent.chmod(0o555)

    sources.copy(module, tmp_path / "root", kubectl)

    copied = tmp_path / "root" / sources.SCRIPT
    assert copied.read_text() == SCRIPT
    assert copied.stat().st_mode & 0o777 == 0o755
    assert copied.parent.stat().st_mode & 0o200
    assert (tmp_path / "root/_output/bin/kubectl").resolve() == kubectl
