"""PersistentVolumes and their claims: binding, reclaiming, protection."""
