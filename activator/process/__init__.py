"""Parts of any long-running process: logs, outputs that may block, tasks, timers, sockets."""
