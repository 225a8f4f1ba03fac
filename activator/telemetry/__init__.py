"""What operators measure: plain counters of the other parts, turned into metrics when asked."""
