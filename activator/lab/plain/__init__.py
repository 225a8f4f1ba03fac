"""A plain Kubernetes cluster on one machine: Services and Deployments whose pods are processes.

The objects are in the API server of :mod:`activator.lab.control_plane`. The parts here replace
Kubernetes' own components:

- :mod:`.deployments` creates and deletes pods, and rolls out new templates.
- :mod:`.node` runs each pod as a process, as kubelet does.
- :mod:`.endpoint_slices` lists the pods of each Service.
- :mod:`.service_proxy` forwards connections to the endpoints of a Service, as kube-proxy does.
- :mod:`.cluster` combines them.
"""
