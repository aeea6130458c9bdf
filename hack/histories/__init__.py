"""Compares the same histories of workloads under kube-controller-manager and under vcsync's controllers.

`python -m hack.histories --count 50`. Two tenants of one embedded control plane use one of these each; both have a simulated
kubelet. Every step of a history is done in both. Before the next step, both must be quiet and equal.
"""
