"""Listeners of the scaler over HTTP, and their certificates from files."""
