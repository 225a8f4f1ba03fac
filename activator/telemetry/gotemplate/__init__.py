"""Renders the part of Go's text/template that log lines use.

``compiler.compile_template`` makes a function of a template once; the request log calls it for each
line. Subclasses of ``values.GoStruct`` describe the values of a line. Source: the documentation of
Go's packages text/template and fmt.
"""
