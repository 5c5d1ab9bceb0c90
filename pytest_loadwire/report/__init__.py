"""What test runs know about conformance, as one JSON or one HTML page.

`record` is the form of a report and writes it, `collect` fills one from a pytest run, `reader_run`
one from ``loadwire testee``; `merge` reads and joins them, `page` renders them.
"""
