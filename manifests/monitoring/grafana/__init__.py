"""Grafana's dashboards, made from a list of panels; see ``__main__``."""
