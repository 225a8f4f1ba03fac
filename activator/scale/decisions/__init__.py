"""Decisions about Services: plans, the engine that makes them, and their reasons."""
