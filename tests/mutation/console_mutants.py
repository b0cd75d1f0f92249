"""The guards of the console, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

ACCESS, ATTACKS = "tests/console/test_access.py", "tests/console/test_attacks.py"
FORMS, VALUES = "tests/console/test_forms.py", "tests/console/test_values_of_forms.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"console: {name}", (Change(symbol, before, after),), test=test)


CONSOLE = (
    guard(
        "forms of other sessions",
        "mercury.console.gate:Gate.enter_with_form",
        'if not self.sessions.owns_form(caller.session, (caller.form.get("form_token") or [""])[0]):',
        "if False:",
        f"{ACCESS}::test_a_form_token_of_another_session_does_nothing",
    ),
    guard(
        "key of sessions that a reader could derive",
        "mercury.console.sessions:key_of",
        "if token is None:",
        "if token is None and reader_token is None:",
        f"{ACCESS}::test_a_reader_cannot_write_the_session_of_an_operator_where_operators_have_no_token",
    ),
    guard(
        "logouts of visitors",
        "mercury.console.sessions:Sessions.end",
        "if session.user is None:",
        "if False:",
        f"{ACCESS}::test_logouts_of_visitors_who_never_logged_in_are_not_remembered",
    ),
    guard(
        "users without a name",
        "mercury.console.site:Site._login",
        "if not clean_name(name):",
        "if False:",
        f"{ACCESS}::test_without_a_name_nobody_is_let_in_and_the_attempt_does_not_count",
    ),
    guard(
        "actions of readers",
        "mercury.console.site:Site._act",
        "if not may_act(caller.user):",
        "if False:",
        "tests/console/test_actions.py::test_a_reader_sees_every_page_and_no_action",
    ),
    guard(
        "no advice where the decision log may be another one",
        "mercury.console.pages.doubt:lines_of",
        "read_gtrid(gtrid) in found.unknown",
        "False",
        "tests/console/test_in_doubt.py::test_no_verdict_is_offered_on_a_transaction_whose_decision_log_is_not_named",
    ),
    guard(
        "a verdict that is refused is no failure of the store",
        "mercury.console.problems:problem_of",
        "case ResolutionRefused():",
        "case ZeroDivisionError():",
        "tests/console/test_in_doubt.py::"
        "test_a_verdict_against_the_decision_is_refused_with_the_reason_and_not_as_a_failure_of_the_store",
    ),
    guard(
        "decisions in the log of the settings",
        "mercury.storage.opening:coordinator_of_operator",
        "log = decision_log if store.capabilities.two_phase else None",
        "log = None",
        "tests/console/test_in_doubt.py::test_the_decision_log_of_the_settings_is_read_when_no_database_is_named",
    ),
    guard(
        "decisions in the log of the settings are not those of a store that keeps its own",
        "mercury.storage.opening:coordinator_of_operator",
        "log = decision_log if store.capabilities.two_phase else None",
        "log = decision_log",
        "tests/console/test_in_doubt.py::"
        "test_a_decision_log_in_the_settings_of_a_store_that_keeps_its_own_decisions_is_not_read",
    ),
    guard(
        "a look leaves the store of a process as it is",
        "mercury.storage.opening:coordinator_of_operator",
        "return _coordinator(store, {}, log, Timing(), 0.0)",
        "return name_resources(store, {}, decision_log=log)",
        "tests/console/test_in_doubt.py::"
        "test_a_look_at_transactions_in_doubt_changes_nothing_in_the_process_of_the_store",
    ),
    guard(
        "listeners at the engine of a store",
        "mercury.storage.xa.resources:Resource.__init__",
        "if name != STORE_BRANCH:",
        "if True:",
        "tests/console/test_in_doubt.py::"
        "test_a_look_at_transactions_in_doubt_changes_nothing_in_the_process_of_the_store",
    ),
    guard(
        "names of other hosts",
        "mercury.console.requests:check_host",
        "client not in LOOPBACK or host not in LOCAL_NAMES or proxied",
        "client not in LOOPBACK or proxied",
        f"{ACCESS}::test_a_page_of_another_name_gets_nothing",
    ),
    guard(
        "the content security policy",
        "mercury.console.headers:SecurityHeaders.__call__",
        "headers.setdefault(name, value)",
        "pass",
        f"{ACCESS}::test_every_answer_forbids_other_scripts_frames_guesses_and_copies",
    ),
    guard(
        "stored scripts",
        "mercury.console.rendering:Templates.__init__",
        "autoescape=True",
        "autoescape=False",
        f"{ATTACKS}::test_no_stored_text_is_part_of_a_page_s_html",
    ),
    guard(
        "an answer means what was asked about",
        "mercury.console.pages.letters:chosen",
        'dead_before=fields.seconds(visit, "dead_before"),',
        "",
        f"{FORMS}::test_letters_that_die_after_the_question_are_not_in_its_answer_also_if_that_is_sent_again",
    ),
    guard(
        "the store that was asked about",
        "mercury.operations.destinations:DestinationActions.replace",
        'check(f"the other store that answers for {endpoint}", expected, known.refused or "none")',
        "pass",
        f"{FORMS}::test_a_form_that_is_sent_again_does_nothing_more",
    ),
    guard(
        "references where XML has none",
        "mercury.console.payloads:editable",
        "written if canonical(written) == canonical(text) else text",
        "written",
        f"{VALUES}::test_a_payload_that_nobody_changes_is_sent_as_the_same_document",
    ),
    guard(
        "direction marks in values of forms",
        "mercury.console.rendering:unchanged",
        "if printable(text, lines=True) == text:",
        "if True:",
        f"{VALUES}::test_no_direction_mark_stands_in_the_html_of_a_form",
    ),
    guard(
        "values of forms as they are",
        "mercury.console.rendering:_referenced",
        'Markup("&#x{:X};").format(ord(character))',
        "printable(character)",
        f"{VALUES}::test_an_action_on_a_filter_with_invisible_characters_is_done_to_what_the_question_was_about",
    ),
    guard(
        "open pages get nothing older",
        "mercury.console.readings:Readings.new",
        "begun >= kept.begun",
        "True",
        "tests/console/test_readings.py::test_a_page_that_is_asked_for_is_read_anew_and_open_pages_get_nothing_older",
    ),
    guard(
        "a reading that nobody gets",
        "mercury.console.readings:Readings._of",
        "each.value = None",
        "pass",
        "tests/console/test_readings.py::test_a_reading_that_nobody_gets_any_more_is_not_kept",
    ),
    guard(
        "the reading of a dead letter",
        "mercury.console.pages.letters:add_pages",
        'replace(letter, payload=b"", headers=(), to_parameters=())',
        "letter",
        "tests/console/test_readings.py::test_the_reading_of_a_dead_letter_keeps_no_body",
    ),
)
