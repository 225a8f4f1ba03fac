"""The program ``activator scale``: scales the workloads of annotated Services."""
