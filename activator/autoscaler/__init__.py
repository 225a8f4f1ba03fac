"""Reports the load of each revision to the autoscaler, and the first request of one at once.

``concurrency`` counts and ``links`` passes the counts on every second; both need the standard
library only. ``wire`` and ``link`` send them to an autoscaler, and import protobuf and websockets.
A process without an autoscaler need not import these two.
"""
