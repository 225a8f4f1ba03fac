"""The load of the Services, as the activators report it."""
