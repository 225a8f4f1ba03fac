"""Define the fields of the admin API's responses: each once, with its type and its meaning.

Each field is ``Annotated`` with its meaning, a text for people with code in backquotes. The closed
set of its words follows, if it has one. The OpenAPI document and the tables of docs/reference.md
(openapi.py) follow from these types. mypy checks the code that makes the responses. The types are
a contract. Later versions may add fields within ``/api/v1``, and words to closed sets. They remove
none, and change no meaning. Clients must ignore unknown fields and words. Knative has no
counterpart.
"""
