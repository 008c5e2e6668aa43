"""The command line within this process, as in the tests of the command line."""

from tests.cli.conftest import invoke as invoke
