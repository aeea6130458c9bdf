"""Real Kubernetes on one machine: a meta cluster, super clusters with hollow nodes, tenant control planes."""

from hack.testbed import faults
from hack.testbed.bed import Cluster, KubectlError, TestBed, TestBedError
from hack.testbed.binaries import BuildError, ensure

__all__ = ["BuildError", "Cluster", "KubectlError", "TestBed", "TestBedError", "ensure", "faults"]
