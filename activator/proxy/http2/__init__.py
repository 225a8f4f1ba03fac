"""HTTP/2 (RFC 9113) with HPACK (RFC 7541).

``frame_reader`` cuts bytes into frames, ``frames`` builds them; ``hpack``, ``huffman`` and
``static_table`` read and write header blocks; ``fields`` and ``section`` say what they mean;
``flow`` counts windows. All of these are pure. ``stream`` and ``connection`` hold what both ends
of a connection have; only ``connection`` knows a transport.
"""
