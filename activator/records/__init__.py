"""What is recorded of requests, revisions and pods: counters, events, failures, cold starts."""
