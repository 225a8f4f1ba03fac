"""The command line: the commands, their options, their help and their exit statuses."""
