"""ExcelProcessor: a component that reads, merges, transforms and writes spreadsheets in worker processes."""

from ragflow_lg.component.integration import Integration

INTEGRATION = Integration(__name__, components={"ExcelProcessor": ".excel_processor"})
