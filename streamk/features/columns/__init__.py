"""Families of columns, one file each; a new one is added to the registry, at the end."""

from streamk.features.columns.cells import CellColumns
from streamk.features.columns.cosines import CosineColumns
from streamk.features.columns.family import Family
from streamk.features.columns.labels import LabelColumns
from streamk.features.columns.plain import PlainColumns
from streamk.features.columns.products import ProductColumns

FAMILIES: tuple[type[Family], ...] = (PlainColumns, LabelColumns, CosineColumns, CellColumns, ProductColumns)
