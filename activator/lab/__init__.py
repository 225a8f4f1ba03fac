"""A test environment on one machine: sample pods, a toy cluster that scales them, and a demo.

Everything runs as ordinary processes on loopback addresses, without Kubernetes:

- ``python -m activator.lab.pod`` is one pod: queue-proxy and application in one process
  (:mod:`.application` handles requests and switches, :mod:`.http1` serves).
- :mod:`.control_plane` is the API server. :mod:`.controllers` turns its objects into pods and
  endpoints, and :mod:`.kubelet` runs, checks and restarts the pods.
- :mod:`.cluster` combines them into one toy cluster, for Services and for revisions of Knative.
  An activator reads its objects from the API server, or as copies from a folder.
- :mod:`.environment` is the environment of :mod:`.scenarios`: a cluster, an activator, clients
  (:mod:`.programs`), and a :mod:`.timeline` of all events. :mod:`.command` runs scenarios for
  ``activator lab``.
- :mod:`.demo` scales a cluster by the statistics of an activator, and prints each event.

The lab uses the activator only from outside. It writes a folder of manifests, sends HTTP
requests, and reads statistics, log and API. It imports no other package of this project. A pod
imports only the standard library, and uvloop and websockets where they are installed. So it
starts within a tenth of a second.
"""
