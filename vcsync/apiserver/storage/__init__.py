"""The storage of control planes: one interface, implemented with SQLite and with etcd."""
