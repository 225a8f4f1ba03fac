"""The pages for readers, executed: each console block runs, and shows what the page shows.

`pages` reads pages, `table` says where each block runs, `worlds` are the places, `reader` types.
CONTRIBUTING.md says how to run it; `tests/test_howto_table.py` guards the table.
"""
