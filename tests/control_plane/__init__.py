"""The lab's control plane as strict as Kubernetes, with switches for faults, and its clients.

- :mod:`.strict` refuses requests without rights, and counts conflicts as they are switched on.
- :mod:`.validation` has the rules by which it refuses objects.
- :mod:`.client` sends requests to a control plane in this process.
"""
