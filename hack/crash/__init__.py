"""Repeatedly kills a process that writes to the SQLite store, and checks that no acknowledged write is lost."""
