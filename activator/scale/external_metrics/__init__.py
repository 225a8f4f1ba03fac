"""The API group ``external.metrics.k8s.io``, from which HPAs read the load."""
