"""A stand-in for the Kubernetes control plane, for the lab and for tests, without a cluster.

- :mod:`.resources` has the kinds of objects, reads API paths, and lists kinds for clients.
- :mod:`.store` stores objects with versions, and deletes objects whose owner is gone.
- :mod:`.validation` fills in fields, and refuses objects, as the API server does.
- :mod:`.reads` makes lists and watches, and :mod:`.writes` creates, changes and deletes objects.
- :mod:`.plane` turns one request into one response; :mod:`.faults` has its switches.
- :mod:`.server` serves all this on a loopback socket.

Statuses and texts were compared with Kubernetes 1.36. It has no authentication. It accepts JSON
merge patches only.
"""
