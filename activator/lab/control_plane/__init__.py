"""A stand-in for the Kubernetes control plane, for the lab and for tests, without a cluster.

- :mod:`.api` has the kinds of objects, API paths, error responses, and switches for faults.
- :mod:`.store` stores objects with versions, makes lists and watches, and deletes objects whose
  owner is gone.
- :mod:`.validation` fills in fields, and refuses objects, as the API server does.
- :mod:`.writes` creates, changes and deletes objects.
- :mod:`.plane` turns one request into one response, and serves all this on a loopback socket.

Statuses and texts were compared with Kubernetes 1.36. It has no authentication. It accepts JSON
merge patches only.
"""
