"""HTTP/2 without sockets: frames, compressed header fields, and what requests consist of.

``frame_reader`` cuts a connection's bytes into frames and says of each what RFC 9113 section 6
says; ``frames`` builds them. ``hpack`` is RFC 7541, with ``huffman`` and ``static_table``;
``fields`` makes requests, answers and trailers of what it decodes, and header blocks of what
passes on. Bytes in, records out: no socket, no loop, no clock, and no stream's state.
"""
