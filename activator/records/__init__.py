"""Records what happens to requests, revisions and pods: counters, events, failures, cold starts."""
