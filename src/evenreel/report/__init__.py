"""Results as one self-contained page that opens offline."""

from evenreel.report.evaluation import evaluation_page
from evenreel.report.page import Chart, Page, Section, Table, Text, write_page

__all__ = ["Chart", "Page", "Section", "Table", "Text", "evaluation_page", "write_page"]
