"""Creates, updates, patches, deletes and reads objects of every kind: the layer between handlers and storage."""
