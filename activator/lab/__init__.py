"""A test environment on one machine: sample pods, a toy cluster that scales them, and a demo.

Everything runs as ordinary processes on loopback addresses, without Kubernetes:

- ``python -m activator.lab.pod`` is one pod: queue-proxy and application in one process
  (:mod:`.queue_proxy` handles probes, :mod:`.application` requests, :mod:`.http1` parses).
- :mod:`.deployment` manages the pods of one revision. It starts and stops their processes, and
  writes the Revision and Endpoints objects (:mod:`.objects`) into a folder that
  ``activator local --manifests`` watches. :mod:`.kubelet` checks and restarts the pods.
- :mod:`.cluster` scales a few deployments by statistics; :mod:`.scaler` calculates the number.
- :mod:`.environment` is the environment of :mod:`.scenarios`: revisions with pods, an activator,
  clients, and a timeline of all events. :mod:`.command` runs scenarios for ``activator lab``.
- :mod:`.demo` scales a cluster by the statistics of an activator, and prints each event.

The lab uses the activator only from outside. It writes a folder of manifests, sends HTTP
requests, and reads statistics, log and API. It imports no other package of this project. A pod
imports only the standard library, and uvloop and websockets where they are installed. So it
starts within a tenth of a second.
"""
