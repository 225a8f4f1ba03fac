"""What any long-running process needs: logs, outputs that may block, tasks, timers, sockets."""
