"""A stand-in for the Kubernetes control plane, for the lab and for tests, without a cluster.

- :mod:`.api` has the kinds of objects, API paths and error responses.
- :mod:`.store` stores objects with versions, makes lists and watches, and deletes objects whose
  owner is gone.
- :mod:`.defaults` fills in fields, as the API server does.
- :mod:`.writes` creates, changes and deletes objects.
- :mod:`.plane` turns one request into one response, and serves all this on a loopback socket.

Statuses and texts were compared with Kubernetes 1.36. It has no authentication. It accepts JSON
merge patches only. It grants each right, and accepts each object: tests/control_plane is strict.
"""
