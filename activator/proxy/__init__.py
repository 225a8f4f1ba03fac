"""The byte path: passes each request to the pod that the throttler chose, and its response back.

``client`` has the connections of clients, and ``pods`` has the connections to pods. Neither imports
the other. ``exchange`` has one request and its response, between the two. ``http2`` and ``message``
are pure: they make records of bytes, and bytes of records. ``transport`` queries the kernel about
connections, and limits bytes in memory and open files.
"""
