"""Tells the autoscaler how busy each revision is, and at once when a sleeping one is called.

``concurrency`` counts and ``reporter`` hands the counts over every second; both need the standard
library only. ``wire`` and ``link`` carry them to Knative's autoscaler and import protobuf and
websockets; who runs without an autoscaler need not import them.
"""
