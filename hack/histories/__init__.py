"""The same histories of workloads under kube-controller-manager and under our controllers: do they end alike?

`python -m hack.histories --count 50`. Two tenants of one embedded control plane, one with each; a pretended kubelet in
both. Every step of a history is done in both; before the next, both have to be quiet and alike.
"""
