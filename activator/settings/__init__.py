"""Reads the settings of the process: flags, environment, defaults, and their accepted values."""
