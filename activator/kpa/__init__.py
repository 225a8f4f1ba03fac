"""Decides how many replicas a workload needs, by the rules of Knative's autoscaler (KPA).

Pure: no clock, no input or output. The caller passes the time and what it has observed.
Knative's counterpart: pkg/autoscaler/scaling/autoscaler.go and pkg/reconciler/autoscaling/kpa.
"""
