"""Shared parts of all commands: entry point, options, settings file, errors, output."""
