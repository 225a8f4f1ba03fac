"""Mixed traffic of many kinds through one activator, for soak, rollout and sigterm.

Pods and clients are processes. `kinds` defines the requests; `verdict` decides which failures
count.
"""
