"""The words of the KEDA HTTP add-on: its objects, texts, fields and variables."""
