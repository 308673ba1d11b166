"""Spreadsheets: tables are read from XLSX and CSV files, merged, and written to new files, row by row.

The functions in ``spreadsheet_tasks`` run in worker processes, because files may be hostile.
"""
