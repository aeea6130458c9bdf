# Runs groups of kubectl's tests, each alone. The folder is the root of a copy of Kubernetes' scripts.
# Environment: SECURE_API_PORT, KUBE_TEMP (a folder), LOGS (a folder), GROUPS_TO_RUN ("pod_tests rc_tests").
# Prints "<group> <exit code>" after each group.
set -o errexit -o nounset -o pipefail
export TERM=xterm HOME="${KUBE_TEMP}" KUBECONFIG="${KUBE_TEMP}/config"
# The tests compare kubectl's version with the server's, which has a build of its own.
export ALLOW_SKEW=yes
export KUBE_JUNIT_REPORT_DIR="${KUBE_TEMP}/junit"
export SUPPORTED_RESOURCES=("*")
KUBE_ROOT="${PWD}"
export THIS_PLATFORM_BIN="${PWD}/_output/bin"
source hack/lib/util.sh
source hack/lib/logging.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh >"${LOGS}/setup.log" 2>&1

CONTEXT=test
{
  kubectl config set-credentials test-admin --token admin-token
  kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
  kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
  kubectl config use-context "${CONTEXT}"
} >>"${LOGS}/setup.log" 2>&1

# runTests calls run_<WHAT>_tests.
run_secrets_test_tests() { run_secrets_test; }
run_kubectl_diff_same_names_tests() { run_kubectl_diff_same_names; }

for group in ${GROUPS_TO_RUN}; do
  # Bash ignores errexit on the left of "||", so that failures inside would not count.
  set +o errexit
  (set -o errexit; WHAT="${group%_tests}"; runTests) >"${LOGS}/${group}.log" 2>&1 </dev/null
  code=$?
  set -o errexit
  echo "${group} ${code}"
done
