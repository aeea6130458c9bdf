"""The programs of Argo Rollouts and the cases of its tests, as data."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from hack.operators.catalog import Operator

ROLLOUTS = Operator(
    "argo-rollouts", "github.com/argoproj/argo-rollouts", "v1.10.1", ("test/e2e",), tags="e2e"
)
TESTS = ROLLOUTS.packages[0]
CONTROLLER = "cmd/rollouts-controller"
DEFINITIONS = "manifests/crds"
"""Kustomization of the definitions."""
INSTANCE = "argo-rollouts-e2e"
"""Instance of the controller that the tests' objects name."""

CASES: Mapping[str, tuple[str, ...]] = {
    "TestBlueGreenSuite": (
        "TestBlueGreenPreviewReplicaCount",
        "TestBlueGreenProgressDeadlineExceededWithPause",
        "TestBlueGreenProgressDeadlineExceededWithoutPause",
        "TestEphemeralMetadata",
    ),
    "TestCanarySuite": (
        "TestCanaryDynamicStableScale",
        "TestCanaryDynamicStableScaleRollbackToStable",
        "TestCanaryProgressDeadlineExceededWithPause",
        "TestCanaryScaleDownDelay",
        "TestCanaryScaleDownDelayWithProgressDeadline",
        "TestCanaryScaleDownOnAbortNoTrafficRouting",
        "TestCanarySetCanaryScale",
        "TestCanaryUnScaleDownOnAbort",
        "TestCanaryWithPausedRollout",
        "TestCanaryWithSpecPause",
        "TestEphemeralMetadata",
        "TestReduceWeightAndHonorMaxUnavailable",
        "TestRolloutScalingDuringUpdate",
        "TestRolloutScalingWhenPaused",
        "TestRolloutWithMaxSurgeScalingDuringUpdate",
    ),
    "TestExperimentSuite": (
        "TestExperimentWithDryRunMetrics",
        "TestExperimentWithMeasurementRetentionMetrics",
        "TestExperimentWithMultiportServiceAndScaleDownDelay",
        "TestExperimentWithServiceAndScaleDownDelay",
        "TestExperimentWithServiceNameAndScaleDownDelay",
        "TestRolloutWithExperimentAndAnalysis",
    ),
    "TestFunctionalSuite": (
        "TestBlueGreenExceedProgressDeadlineAbort",
        "TestBlueGreenPreviewReplicaCountPromoteFull",
        "TestBlueGreenPromoteFull",
        "TestBlueGreenScaleDownDelay",
        "TestBlueGreenScaleDownOnAbort",
        "TestBlueGreenToCanary",
        "TestBlueGreenUpdate",
        "TestCanaryPromoteFull",
        "TestCompleteRolloutRestart",
        "TestContainerResourceFormats",
        "TestFixInvalidSpec",
        "TestKubectlWaitForCompleted",
        "TestKubectlWaitForPaused",
        "TestMalformedRollout",
        "TestMalformedRolloutEphemeralCtr",
        "TestNeverScaleDown",
        "TestRolloutAbortRetryPromote",
        "TestRolloutBadToBadUpdate",
        "TestRolloutBadToGoodSetWeightUpdate",
        "TestRolloutBadToGoodUpdate",
        "TestRolloutGoodToBadUpdate",
        "TestRolloutPDBRestart",
        "TestRolloutPauseDurationGreaterThanProgressDeadlineSeconds",
        "TestRolloutPodVolumesItemsSpec",
        "TestRolloutRestart",
        "TestScaleDownOnSuccess",
        "TestScaleDownProgressively",
        "TestScaleDownProgressivelyCompleted",
        "TestScaleDownProgressivelyCompletedCanary",
        "TestSpecAndReplicaChangeSameTime",
        "TestWorkloadRef",
        "TestWorkloadRefTemplate",
    ),
}
"""Suite -> its cases.

Two are left out. `TestControllerMetrics` asks the controller, not the cluster, on a fixed port. `TestCanaryScaleDownOnAbort`
passes by chance on any cluster: it looks once at a Service's selector, which the controller switches back and forth.
"""

KNOWN: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "known.yaml").read_text(encoding="utf-8")
)
"""`both` or `hollow cluster` -> case that fails there -> reason."""


def names(suite: str) -> tuple[str, ...]:
    """Return the whole names of a suite's cases, as the tests print them."""
    return tuple(f"{suite}/{each}" for each in CASES[suite])


def known(*, reference: bool) -> dict[str, str]:
    """Return the cases that are expected to fail, with the reasons: on a tenant, or on the reference hollow cluster."""
    return {**KNOWN["both"], **(KNOWN["hollow cluster"] if reference else {})}
