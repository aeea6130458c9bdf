"""Registration of clusters in the pool: identity, accounts, tokens, kubeconfigs, manifests."""
