"""The admin port: health, metrics, the read-only API and the dashboard."""
