"""Where control planes keep their objects: one interface, SQLite and etcd behind it."""
