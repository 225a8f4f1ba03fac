"""HTTP messages as bytes and records: heads, bodies, and the activator's own responses. Pure."""
