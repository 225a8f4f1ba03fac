"""The builder of Grafana's dashboards from lists of panels; see ``__main__``."""
