"""The scaler's health, metrics, API and page; all are read-only."""
