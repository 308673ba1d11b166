"""DocGenerator and the writer of files: one tree of Markdown, and one module for each target.

Text becomes data of the target, never its markup.
"""

from ragflow_lg.component.integration import Integration, Service

INTEGRATION = Integration(
    __name__,
    components={"DocGenerator": ".doc_generator"},
    sections={"reports": ".reports_section:ReportsSection"},
    services=(Service("ragflow_lg.services.reports:Reports", ".worker_reports:open_reports"),),
    probe=".worker_reports:probe_fonts",
)
