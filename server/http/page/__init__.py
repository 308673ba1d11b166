"""The files of the page, served at `/page` and, to browsers, at `/`.

May import `server.page`, which has the files.
"""
