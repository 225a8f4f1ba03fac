"""A conversation with a real API server, recorded, and the stand-ins that must respond like it.

`conversation` sends the requests and `talk` writes down the exchanges. `recording` compares them
with recording.json. `requests` compares the requests of the programs with requests.txt.
CONTRIBUTING.md says when to record again.
"""
