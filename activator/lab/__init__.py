"""A small world to try the activator in: pods, a toy cluster that scales them, and a guided demo.

Everything runs as ordinary processes on loopback addresses, without Kubernetes:

- ``python -m activator.lab.pod`` is one pod: queue-proxy and application in one process
  (:mod:`.queue_proxy` answers probes, :mod:`.application` answers requests, :mod:`.http1` parses).
- :mod:`.deployment` keeps the pods of one revision: it starts and stops the processes, checks and
  restarts them as kubelet does (:mod:`.kubelet`), and writes the Revision and Endpoints objects
  (:mod:`.objects`) into a folder that ``activator local --manifests`` watches.
- :mod:`.cluster` scales a few of them by statistics; :mod:`.scaler` decides how far.
- :mod:`.stage` is what :mod:`.scenarios` are played on: revisions with pods, an activator, clients
  and a timeline of what all of them did. :mod:`.command` plays them for ``activator lab``.
- :mod:`.demo` ties a cluster to the statistics of an activator and tells what happens, line by
  line.

The lab knows the activator only from outside: a folder of manifests goes in, statistics, log and
API come out, and HTTP passes between. It imports no other package of this project, and a pod
nothing but the standard library (uvloop and websockets where they are installed), so that it
starts in a blink.
"""
