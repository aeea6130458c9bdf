"""Kills a process that writes to the SQLite store, again and again, and checks that nothing acknowledged is lost."""
