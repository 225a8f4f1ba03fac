"""Probes pods: ``probe`` is one request and its response, ``prober`` decides when."""
