"""The election of the leader among the scalers, by a Lease."""
