"""The commands that read a running activator: ``status``, ``explain``, ``watch``, ``events``."""
