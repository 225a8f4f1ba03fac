"""Mixed traffic of many kinds through one activator, for endurance, rollout, sigterm and soak.

Pods and clients are processes. `kinds` defines the requests; `verdict` decides which failures
count.
"""
