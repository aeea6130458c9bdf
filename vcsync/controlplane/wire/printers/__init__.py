"""The cells of `kubectl get` for every built-in kind, by column. Behaviour: Kubernetes' pkg/printers/internalversion. Pure."""
