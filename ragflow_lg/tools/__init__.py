"""Tools: components that a model may call. One file each; see `ragflow_lg.component.tool`."""
