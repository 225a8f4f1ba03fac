"""The dashboard in a browser. A package, so that its tests share one browser and one activator."""
