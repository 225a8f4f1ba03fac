"""One request and its response: lookup, wait, retries, time limits, and the records of its end."""
