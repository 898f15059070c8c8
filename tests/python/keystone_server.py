"""Keystone's application for gunicorn. Keystone reads this process's arguments as its own options, and they are gunicorn's."""

import sys

del sys.argv[1:]

from keystone.wsgi.api import application  # noqa: E402, F401
