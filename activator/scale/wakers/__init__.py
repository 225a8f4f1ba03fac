"""How workloads sleep and wake: one file for each waker, and the table of all."""
