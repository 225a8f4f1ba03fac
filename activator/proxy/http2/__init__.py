"""HTTP/2 (RFC 9113) with HPACK (RFC 7541).

``frame_reader`` parses frames, and ``frames`` builds them. ``hpack``, ``huffman`` and
``static_table`` read and write header blocks. ``fields``, ``field_rules`` and ``section`` read
requests and responses from their fields. ``flow`` counts windows, and ``stream`` holds payload
that waits for a window. All of these are pure. Only ``connection`` uses a transport; ``side`` lists
the methods in which a client's connection and a pod's differ.
"""
