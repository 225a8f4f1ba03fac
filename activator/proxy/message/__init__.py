"""HTTP messages as bytes and records: heads, bodies, and the responses that are our own. Pure."""
