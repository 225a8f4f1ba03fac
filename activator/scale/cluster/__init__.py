"""Objects of the cluster: followed by watches, kept by version, and changed by requests."""
