"""The settings of the process: flags, environment, defaults, and the values they may have."""
