"""Categories of columns, as pandas' Categorical and Arrow's dictionaries have them.

The engine stores the values of such a column, and its categories as JSON in the metadata of its field, which
stays with the column through selections, filters, sorts and the like. DataFrames get a Categorical back.
"""

import json

from headrace._core import from_arrow as tables_of_arrow
from headrace.optional import imported

KEY = "headrace.categories"
MOST_BYTES = 1 << 20  # of the JSON; a column with more categories loses them


def to_json(categories, ordered):
    """The text for the metadata; None for categories that are not all text, numbers or booleans."""
    values = [None if v != v else v for v in categories]
    if not all(type(v) in (str, int, float, bool) for v in values):
        return None
    text = json.dumps({"categories": values, "ordered": bool(ordered)}, ensure_ascii=False)
    return text if len(text) <= MOST_BYTES else None


def of_json(text):
    """(categories, ordered)"""
    found = json.loads(text)
    return found["categories"], found["ordered"]


def of_schema(schema):
    """{column: (categories, ordered)} of a core Schema."""
    if schema is None:
        return {}
    texts = schema.metadata(KEY)
    return {name: of_json(t) for name, t in zip(schema.names, texts, strict=True) if t is not None}


def decoded(part):
    """A pyarrow table or record batch with the values of its dictionary columns, and their categories as
    metadata; other objects as they are.
    """
    pyarrow = imported("pyarrow")
    if pyarrow is None or not isinstance(part, (pyarrow.Table, pyarrow.RecordBatch)):
        return part
    if not any(pyarrow.types.is_dictionary(t) for t in part.schema.types):
        return part
    table = part if isinstance(part, pyarrow.Table) else pyarrow.Table.from_batches([part])
    table = table.unify_dictionaries()
    for i, field in enumerate(table.schema):
        if not pyarrow.types.is_dictionary(field.type):
            continue
        column = table.column(i)
        values = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        text = to_json([v for v in values if v is not None], field.type.ordered)
        metadata = {**(field.metadata or {}), **({KEY: text} if text else {})}
        plain = pyarrow.field(field.name, field.type.value_type, field.nullable, metadata)
        table = table.set_column(i, plain, column.cast(field.type.value_type))
    return table


def with_those_of(tables, frames):
    """The tables made of these DataFrames, with the categories that a column has in all of them."""
    texts = {}
    for i, name in enumerate(frames[0].columns):
        dtypes = [f.dtypes.iloc[i] for f in frames if i < len(f.columns) and f.columns[i] == name]
        if len(dtypes) < len(frames) or any(str(d) != "category" or d != dtypes[0] for d in dtypes):
            continue
        text = to_json(dtypes[0].categories.tolist(), dtypes[0].ordered)
        if text:
            texts[str(name)] = text
    if not texts:
        return tables
    try:
        import pyarrow
    except ImportError:
        return tables
    made = []
    for table in tables:
        arrow = pyarrow.RecordBatchReader.from_stream(table).read_all()
        fields = [
            f.with_metadata({**(f.metadata or {}), KEY: texts[f.name]}) if f.name in texts else f
            for f in arrow.schema
        ]
        made += tables_of_arrow(arrow.cast(pyarrow.schema(fields, arrow.schema.metadata)))
    return made


def as_categorical(pandas, values, text):
    """The column as a Categorical; as it is if it has a value that is no category."""
    categories, ordered = of_json(text)
    values = pandas.Series(values)
    if not (values.isin(categories) | values.isna()).all():
        return values
    return pandas.Series(pandas.Categorical(values, categories=categories, ordered=ordered))
