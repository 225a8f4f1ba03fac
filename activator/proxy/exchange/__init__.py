"""One request and its response: lookup, wait, retry, time limits, and what is recorded of it."""
