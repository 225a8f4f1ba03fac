"""A stand-in for the Kubernetes control plane, for the lab and for tests, without a cluster.

- :mod:`.resources` has the kinds of objects, and reads API paths.
- :mod:`.store` stores objects with versions, and feeds watches.
- :mod:`.defaults` fills in fields, and :mod:`.validation` refuses objects, as the API server does.
- :mod:`.plane` turns one request into one response; :mod:`.faults` has its switches.
- :mod:`.garbage` deletes objects whose owner is gone.
- :mod:`.server` serves all this on a loopback socket.

Statuses and texts were compared with Kubernetes 1.36. It has no authentication. It accepts JSON
merge patches only.
"""
