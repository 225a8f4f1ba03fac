"""The state of each Service, for the components that scale it: KEDA, and HPAs."""
