"""A Kubernetes cluster on this machine, with the real control plane, and the product in it.

etcd, kube-apiserver and kube-controller-manager are the real programs. `node` is the only node: it
runs pods as processes with addresses of their own. CONTRIBUTING.md says how to get the programs.
"""
