"""Go's text/template, as much of it as log lines are written with.

``compiler.compile_template`` makes a function of a template once; it is called per line. What
lines are made of is described by subclasses of ``values.GoStruct``. Source: the documentation of
Go's packages text/template and fmt.
"""
