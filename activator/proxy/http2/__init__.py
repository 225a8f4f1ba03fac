"""HTTP/2 (RFC 9113) with HPACK (RFC 7541).

``frame_reader`` parses frames. ``frames`` builds them, and counts windows. ``hpack`` reads and
writes header blocks. ``fields`` and ``section`` read requests and responses from their fields. All
of these are pure. Only ``connection`` uses a transport, and holds payload that waits for a window.
Its ``ConnectionSide`` lists the methods in which a client's connection and a pod's differ.
"""
