"""The guards of the reconciler, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant


def reconciler(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard that is removed."""
    change = Change(f"mercury.reconcile.{symbol}", before, after)
    return Mutant(f"reconciler: {name}", (change,), test=f"tests/reconcile/{test}")


RECONCILES = (
    reconciler(
        "messages in a stage",
        "stores:SqlPlaces._some",
        "elif correlation in staged:",
        "elif False:",
        "test_places.py::test_message_that_a_stage_has_acknowledged_is_not_lost",
    ),
    reconciler(
        "dead letters of a stage",
        "stores:SqlPlaces._dead",
        "*stages, ",
        "",
        "test_places.py::test_message_that_a_stage_has_acknowledged_is_not_lost",
    ),
    Mutant(
        "reconciler: a stage by the settings",
        (Change("mercury.cli.reconcile:_name_by_settings", " and is_here(stage)", ""),),
        test="tests/reconcile/test_logs.py::test_stages_are_named_by_options_or_by_the_settings",
    ),
    reconciler(
        "texts beside nulls",
        "pushdown:_chain",
        "(sa.func.row(*slow), SEED), total]",
        "(sa.func.row(*slow), SEED)]",
        "test_pushdown.py::test_rows_whose_slow_columns_are_all_null_differ_by_their_other_columns",
    ),
    reconciler(
        "an empty object is no empty list",
        "pushdown",
        """_Quick(_text, "''", lambda found: sa.cast(found, sa.Text))""",
        """_Quick(sa.func.jsonb_hash_extended, "'null'::jsonb")""",
        "test_pushdown.py::test_rows_that_differ_in_one_value_or_in_a_null_have_different_hashes",
    ),
    reconciler(
        "the sign of a number counts",
        "pushdown",
        '_Quick(_text, "0", lambda found: sa.func.trim_scale(found))',
        '_Quick(sa.func.hash_numeric_extended, "0")',
        "test_pushdown.py::test_rows_that_differ_in_one_value_or_in_a_null_have_different_hashes",
    ),
    reconciler(
        "the sign of a float that is rounded counts",
        "pushdown:_quick",
        "Kind.DECIMAL if field.kind is Kind.FLOAT and field.scale is not None else field.kind",
        "field.kind",
        "test_pushdown.py::test_floats_that_are_rounded_differ_by_their_sign",
    ),
    reconciler(
        "all 64 bits of an integer",
        "pushdown:_integer",
        'seed.op("#")(found)',
        "seed",
        "test_pushdown.py::test_rows_that_differ_in_one_value_or_in_a_null_have_different_hashes",
    ),
    reconciler(
        "all 64 bits of a time",
        "pushdown",
        """_text, "0", lambda found: sa.extract("epoch", found)""",
        """sa.func.timestamp_hash_extended, "'epoch'", lambda found: sa.func.timezone("UTC", found)""",
        "test_pushdown.py::test_rows_that_differ_in_one_value_or_in_a_null_have_different_hashes",
    ),
    reconciler(
        "all 64 bits of the hash beside a record",
        "pushdown:_chain",
        "(sa.func.row(*slow), SEED), total]",
        "(sa.func.row(*slow, total), SEED)]",
        "test_pushdown.py::test_many_rows_have_as_many_hashes[one chain]",
    ),
    reconciler(
        "chains with the same values",
        "pushdown:row_hash",
        "SEED + start",
        "SEED",
        "test_pushdown.py::test_many_rows_have_as_many_hashes[chains with the same values]",
    ),
    reconciler(
        "no kind that neither side has",
        "kinds:common",
        "if kind in found and found",
        "if found",
        "test_kinds.py::test_integers_beside_texts_are_not_truth_values",
    ),
    reconciler(
        "exact numbers in JSON",
        "kinds:_json",
        "parse_float=Decimal, parse_int=Decimal, ",
        "",
        "test_kinds.py::test_different_values_have_different_texts",
    ),
    reconciler(
        "no json as jsonb",
        "pushdown:obstacle",
        'own.text != "JSONB"',
        "False",
        "test_exact.py::test_json_that_is_no_jsonb_is_compared[differing]",
    ),
    reconciler(
        "half a character of JSON can be written",
        "kinds:_json_text",
        '.encode("utf-8", "backslashreplace").decode()',
        "",
        "test_kinds.py::test_json_with_half_a_character_can_be_written_and_equals_no_other",
    ),
    reconciler(
        "a time that there was twice is the later one",
        "kinds:_zoned",
        "for fold in (0, 1)",
        "for fold in (0,)",
        "test_exact.py::test_times_are_read_and_rounded_as_postgresql_does[times]",
    ),
    reconciler(
        "a time that was skipped is the later one",
        "kinds:_zoned",
        "for fold in (0, 1)",
        "for fold in (1,)",
        "test_exact.py::test_times_are_read_and_rounded_as_postgresql_does[times]",
    ),
    reconciler(
        "halves are rounded away from 2000",
        "kinds:microseconds",
        "(past if count >= Y2000 else -past)",
        "(count - Y2000 + step // 2) // step * step",
        "test_exact.py::test_times_are_read_and_rounded_as_postgresql_does[halves]",
    ),
    reconciler(
        "JSON as PostgreSQL wrote it",
        "source:_read_texts",
        'adapters.register_loader("jsonb", TextLoader)',
        "pass",
        "test_exact.py::test_json_of_two_postgresql_databases_is_compared_exactly",
    ),
    reconciler(
        "huge numbers are not written out",
        "kinds:_decimal_text",
        "return str(number.normalize(Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)))",
        "raise AssertionError",
        "test_kinds.py::test_a_short_number_does_not_fill_the_memory",
    ),
    reconciler(
        "all digits of a float that is rounded",
        "pushdown:_numeric",
        "sa.cast(column, sa.Text) if native.kind is Kind.FLOAT else column",
        "column",
        "test_exact.py::test_floats_are_compared_by_all_their_digits_however_the_databases_show_them[2]",
    ),
    reconciler(
        "all digits of a float that is read",
        "source:connected",
        "set local extra_float_digits = 1",
        "select 1",
        "test_exact.py::test_floats_are_compared_by_all_their_digits_however_the_databases_show_them[None]",
    ),
    reconciler(
        "underscores are no digits",
        "kinds:_plain",
        "raise ValueError(text)",
        "pass",
        "test_kinds.py::test_different_values_have_different_texts",
    ),
    reconciler(
        "nothing else between date and time",
        "kinds:_moment",
        "raise ValueError(text)",
        "pass",
        "test_kinds.py::test_different_values_have_different_texts",
    ),
    reconciler(
        "no integers among texts",
        "differences:_of_column",
        "case Kind.INTEGER | Kind.DECIMAL, Kind.INTEGER | Kind.DECIMAL:",
        "case Kind.INTEGER | Kind.DECIMAL, _:",
        "test_places.py::test_newer_rows_are_found_by_keys_that_one_side_stores_as_texts[text-integer]",
    ),
    reconciler(
        "texts among integers are looked for",
        "differences:_of_column",
        "case Kind.TEXT | Kind.INTEGER | Kind.DECIMAL | Kind.DATE, Kind.TEXT:",
        "case Kind.TEXT, Kind.TEXT:",
        "test_places.py::test_newer_rows_are_found_by_keys_that_one_side_stores_as_texts[text-integer]",
    ),
    reconciler(
        "newer rows by the first column that can be searched",
        "differences:_among",
        "if narrowed is not None:",
        "if narrowed is not None or not index:",
        "test_places.py::test_newer_rows_are_found_by_keys_of_each_kind[no condition for the first column]",
    ),
    reconciler(
        "newer rows whose key begins with a null",
        "differences:_among",
        "if any(key[index] is None for key in keys):",
        "if False:",
        "test_places.py::test_newer_rows_are_found_by_keys_of_each_kind[null in the first column]",
    ),
    reconciler(
        "no bounds of integers for a column of texts",
        "plan:has_integers",
        " and side.native(field.name).kind is Kind.INTEGER",
        "",
        "test_databases.py::test_integer_keys_that_one_side_stores_as_texts_are_compared_as_integers[sqlite-client]",
    ),
)
