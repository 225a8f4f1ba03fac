"""Decides how many replicas a workload needs, by the rules of Knative's autoscaler (KPA).

Pure: no clock, no input or output. The caller passes the time and its observations.
Knative's counterpart: pkg/autoscaler/scaling/autoscaler.go and pkg/reconciler/autoscaling/kpa.
"""
