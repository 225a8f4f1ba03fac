"""The byte path: requests in, requests out to the pod that the throttler chose.

``client`` holds the connections of clients and ``pods`` those to pods; neither knows the other.
``exchange`` holds one request and its response between them. ``http2`` and ``message`` are pure:
bytes in, records out. ``transport`` knows what the kernel knows, and bounds bytes and files.
"""
