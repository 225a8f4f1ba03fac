"""HTTP/2 (RFC 9113) with HPACK (RFC 7541).

``frame_reader`` cuts bytes into frames, ``frames`` builds them; ``hpack``, ``huffman`` and
``static_table`` read and write header blocks; ``fields``, ``field_rules`` and ``section`` give them
a meaning; ``flow`` counts windows, and ``stream`` holds what waits for them. All of these are pure.
``connection`` alone knows a transport; ``side`` is what its two ends do.
"""
