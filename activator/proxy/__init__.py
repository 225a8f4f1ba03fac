"""The byte path: requests in, requests out to the pod that the throttler chose.

``request`` and ``response`` read message heads, ``body`` frames bodies, ``grammar`` is the
strict parser that both trust; ``downstream`` is the client's connection, ``upstream`` a pod's,
``exchange`` one request and its answer between them; ``pool`` keeps pods' connections, ``tunnel``
takes over after an upgrade, ``replies`` holds the answers that are ours.
"""
