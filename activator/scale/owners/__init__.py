"""Other components that scale a workload: HPAs, KEDA, and any that sets replicas to zero."""
