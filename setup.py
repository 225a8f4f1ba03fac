"""What pyproject.toml cannot say: the extension modules of a compiled build (backend/)."""

from setuptools import setup

from compiling import arguments

setup(**arguments())
