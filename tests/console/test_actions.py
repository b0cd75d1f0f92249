"""What operators do with the pages, without JavaScript: it takes effect, is in the audit, and readers cannot do it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Via
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.storage.sql.store import SqlStore

from .browsing import READER, Answer, Browser, console_of, serving
from .prepared import BANK, BILLING, Prepared, refuse_store


@pytest.fixture
def browser(prepared_store: SqlStore, prepared: Prepared) -> Iterator[Browser]:
    with serving(console_of(prepared_store, prepared.clock).application()) as url:
        made = Browser(url)
        made.log_in()
        yield made


def last(operations: Operations) -> tuple[str, str, str, Via, str]:
    entry = operations.audit().items[0]
    return entry.action, entry.target, entry.actor, entry.via, entry.note


def letters(operations: Operations, which: LetterFilter = EVERY_LETTER) -> list[str]:
    return [each.id for each in operations.letters.page(which, limit=100).items]


def asked(browser: Browser, page: Answer, action: str, **fields: str) -> Answer:
    """Follow a link to the page that asks, and send its form."""
    (href,) = [each for each in page.links() if each.partition("?")[0] == action]
    return browser.submit(browser.get(href), action, **fields)


# --- sequences -------------------------------------------------------------------------------------------------------


def test_a_sequence_is_suspended_and_resumed_with_the_user_in_the_audit(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    page = browser.get(f"sequence?id={prepared.gap}")
    done = browser.submit(page, "sequence-suspend")
    assert "Suspended: no process works on it" in done.words
    assert "suspended by Ada" in done.words
    assert last(operations) == ("suspend", prepared.gap, "Ada", Via.CONSOLE, "")
    done = browser.submit(done, "sequence-resume")
    assert "Resumed" in done.words
    assert last(operations)[0] == "resume"
    assert "suspended by Ada" not in browser.get(f"sequence?id={prepared.gap}").words.partition("Timeline")[0]


def test_a_sequence_that_has_changed_since_the_page_was_read_is_left_as_it_is(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    page = browser.get(f"sequence?id={prepared.gap}")
    browser.submit(page, "sequence-suspend")
    again = browser.submit(page, "sequence-suspend")
    assert again.status == 409
    assert "Nothing was done" in again.words
    assert [each.action for each in operations.audit().items].count(
        "suspend"
    ) == 2  # that of the prepared store, and one


@pytest.mark.parametrize("end", ["close", "terminate"])
def test_a_received_sequence_is_ended_after_a_question(
    browser: Browser, operations: Operations, prepared: Prepared, end: str
) -> None:
    page = browser.get(f"sequence?id={prepared.gap}")
    assert "waits for messages 3 to 4, which have not arrived" in page.words
    assert (
        "The 5 messages that wait here will be discarded: the sequence has agreed on DiscardFollowingFirstGap."
        in page.words
    )
    done = asked(browser, page, f"sequence-{end}", why="the client was moved")
    assert f"will {end} it" in done.words
    assert last(operations) == (end, prepared.gap, "Ada", Via.CONSOLE, "the client was moved")


def test_a_source_is_restarted_in_a_successor_and_says_what_may_have_arrived(
    browser: Browser, operations: Operations
) -> None:
    found = browser.get("sequences?side=source&key=shelf-1")
    (href,) = [each for each in found.links() if each.startswith("sequence?")]
    page = browser.get(href)
    (question,) = [each for each in page.links() if each.startswith("sequence-restart")]
    assert "Sent and not acknowledged: 3 to 4" in browser.get(question).words
    done = asked(browser, page, "sequence-restart")
    assert "Restarted: a successor sends the rest. Messages that may have arrived are dead letters now." in done.words
    assert last(operations)[0] == "restart"
    unknown = LetterFilter(endpoint="http://client/services/stock", certainty=Certainty.UNKNOWN)
    assert len(letters(operations, unknown)) == 5  # 3 and 4, and behind them those that wait for 3 over there


def test_the_messages_that_wait_and_those_that_become_dead_letters_are_told_apart(
    browser: Browser, operations: Operations
) -> None:
    found = browser.get("sequences?side=source&key=shelf-1")
    (href,) = [each for each in found.links() if each.startswith("sequence?")]
    assert '<td class="number" data-label="Wait">2</td>' in found.text
    page = browser.get(href)
    assert "2 messages wait; 3 others are acknowledged, and kept until those before are." in page.words
    (question,) = [each for each in page.links() if each.startswith("sequence-terminate")]
    assert (
        "If nothing more is acknowledged before it ends, 5 messages become dead letters: 2 are not acknowledged "
        "(number 3 to 4); 3 are acknowledged and follow a missing one: the other side discards what follows it."
    ) in browser.get(question).words
    (line,) = [
        each for each in operations.overview().depth.endpoints if each.endpoint == "http://client/services/stock"
    ]
    assert str(line.waiting) == "2"


def test_an_operator_says_that_a_destination_is_new_when_another_store_has_answered(
    browser: Browser, operations: Operations
) -> None:
    (href,) = [
        each for each in browser.get("sequences?side=source&key=shelf-1").links() if each.startswith("sequence?")
    ]
    assert not [each for each in browser.get(href).links() if each.startswith("sequence-destination")]
    endpoint = refuse_store(operations._store, "shelf-1")
    assert "http://elsewhere/: the store s2 answers there" in browser.get("").words
    (listed,) = [each for each in browser.get("").links() if each.startswith("sequences?endpoint=")]
    assert href in browser.get(listed).links()
    page = browser.get(href)
    assert "The store s2 has answered at http://elsewhere/, in the place of s1: nothing is sent to it." in page.words
    (question,) = [each for each in page.links() if each.startswith("sequence-destination")]
    assert "has the store s1. The store s2 has answered at http://elsewhere/." in browser.get(question).words
    done = asked(browser, page, "sequence-destination", why="moved")
    assert (
        f"{endpoint} has the store s2 now. 1 sequence given up. In doubt: 2 messages, dead letters now." in done.words
    )
    assert operations.destination_actions.refused(10) == ()
    actions = [(each.action, each.kind.value, each.actor, each.note) for each in operations.audit().items[:2]]
    assert actions == [("replace", kind, "Ada", "moved") for kind in ("sequence", "destination")]


def test_sequences_that_are_stuck_stand_before_the_list_unless_something_is_chosen(
    browser: Browser, prepared: Prepared
) -> None:
    page = browser.get("sequences")
    trouble, _, every = page.words.partition(" All Sequence ")
    for name in (prepared.gap, prepared.poisoned, prepared.suspended):
        assert name in trouble
        assert name in every
    assert "nothing" not in trouble.partition("Stuck, or held back on purpose")[2]
    for chosen in ("sequences?side=source", "sequences?stuck=yes", "sequences?after=s0", "sequences?key=shelf-1"):
        other = browser.get(chosen)
        assert other.status == 200
        assert "Stuck, or held back" not in other.words


# --- messages and services -------------------------------------------------------------------------------------------


def test_a_poison_message_is_found_read_tried_again_and_parked(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    page = browser.get("services")
    (href,) = [each for each in page.links() if each.startswith("message?")]
    message = browser.get(href)
    assert "LookupError: no article for order 13" in message.words
    assert "<o:id>13</o:id>" in message.words
    tried = browser.submit(message, "message-retry")
    assert "It is due now" in tried.words
    assert last(operations)[0] == "retry"
    parked = asked(browser, tried, "message-park", why="it is wrong")
    assert "It is parked as soon as a process with its service reads it" in parked.words
    assert last(operations)[0] == "park"
    assert operations.sequences.one(prepared.poisoned).record is not None  # type: ignore[union-attr]


def test_a_message_that_waits_no_more_is_named(browser: Browser) -> None:
    gone = browser.get("message?direction=inbound&position=999")
    assert gone.status == 404
    assert "does not wait any more" in gone.words
    assert browser.get("message?direction=sideways&position=1").status == 400
    assert browser.get("message?direction=inbound&position=1;drop").status == 400


def test_a_service_is_paused_and_resumed(browser: Browser, operations: Operations) -> None:
    page = browser.get("service?name=orders")
    paused = browser.submit(page, "service-pause")
    assert "Paused by Ada" in paused.words
    assert last(operations) == ("pause", "orders", "Ada", Via.CONSOLE, "")
    resumed = browser.submit(paused, "service-resume")
    assert "Paused by" not in resumed.words
    assert last(operations)[0] == "resume"


# --- dead letters ----------------------------------------------------------------------------------------------------


def test_the_dead_letters_of_one_peer_are_redriven(browser: Browser, operations: Operations) -> None:
    page = browser.get("letters")
    (href,) = [each for each in page.links() if each.startswith("letters-redrive") and "billing" in each]
    question = browser.get(href)
    assert question.title == "Redrive 7 dead letters?"
    assert f"7 to {BILLING}: given up after 10 transmissions." in question.words
    assert "twice" not in question.words  # none of them may have taken effect, so nothing is asked about that
    done = browser.submit(question, "letters-redrive")
    assert "7 redriven." in done.words
    assert letters(operations, LetterFilter(endpoint=BILLING)) == []
    assert len(letters(operations)) == 3
    assert last(operations)[0] == "redrive"


def test_letters_that_may_take_effect_twice_are_redriven_only_if_a_box_is_checked(
    browser: Browser, operations: Operations
) -> None:
    question = browser.get(f"letters-redrive?endpoint={BANK}")
    assert "the outcome of 2 is unknown" in question.words
    assert "Also those that may have taken effect already" in question.words
    refused = browser.submit(question, "letters-redrive")
    assert "0 redriven. 2 stay dead letters" in refused.words
    assert "check the box “Also those that may have taken effect already”" in refused.words
    assert '<p class="note wrong"' in refused.text
    assert len(letters(operations, LetterFilter(endpoint=BANK))) == 2
    done = browser.submit(question, "letters-redrive", twice="yes")
    assert "2 redriven." in done.words
    assert '<p class="note done"' in done.text
    assert letters(operations, LetterFilter(endpoint=BANK)) == []


def test_letters_that_stay_dead_are_said_in_another_color_than_success(browser: Browser) -> None:
    question = browser.get("letters-redrive")
    assert question.title == "Redrive 10 dead letters?"
    assert f"2 to {BANK}: expired." in question.words
    assert "1 received for orders: LookupError: no article for order 99." in question.words
    part = browser.submit(question, "letters-redrive")
    assert "7 redriven. 3 stay dead letters" in part.words
    assert '<p class="note caution"' in part.text
    assert (
        "If you leave the box empty, it is done to the other 7 only; 3 that may have taken effect stay"
        in question.words
    )
    only_unknown = browser.get(f"letters-redrive?endpoint={BANK}")
    assert "If you leave the box empty, nothing is done." in only_unknown.words
    assert "box empty" not in browser.get(f"letters-redrive?endpoint={BILLING}").words


def test_redriven_messages_wait_in_the_list_to_which_the_answer_and_the_overview_lead(browser: Browser) -> None:
    done = browser.submit(browser.get(f"letters-redrive?direction=outbound&endpoint={BILLING}"), "letters-redrive")
    assert "7 redriven. What is sent again waits here." in done.words
    (from_note,) = [each for each in done.links() if each.startswith("messages?")]
    line = f'<a href="{from_note.replace("&", "&amp;")}">'
    assert line in browser.get("").text, "the overview leads to the same list"
    waiting = browser.get(from_note)
    assert waiting.words.count("waits for a number") == 7, "they have no sequence yet"
    (one, *_) = [each for each in waiting.links() if each.startswith("message?")]
    assert "stored: handed over by the application, or redriven by an operator" in browser.get(one).words
    assert "What is sent again" not in browser.get("letters").words, "a note is shown once"


def test_a_received_letter_says_that_it_was_redriven(browser: Browser) -> None:
    question = browser.get("letters-redrive?direction=inbound")
    done = browser.submit(question, "letters-redrive", twice="yes")
    (waiting,) = [each for each in done.links() if each.startswith("messages?")]
    found = [each for each in browser.get(f"{waiting}&endpoint=orders").links() if each.startswith("message?")]
    assert any("redriven by an operator" in browser.get(each).words for each in found)


def test_a_filter_that_nothing_matches_says_so_without_the_colour_of_success(browser: Browser) -> None:
    page = browser.get("letters?endpoint=billing")
    assert "No dead letter matches. An address is compared as a whole" in page.words
    assert 'class="fine"' not in page.text


@pytest.mark.parametrize(
    ("page", "text", "section"),
    [
        ("letter?id=never", "There is no dead letter with this identifier (any more).", "letters"),
        ("letter", "There is no dead letter with this identifier (any more).", "letters"),
        ("sequence", "The address names no sequence: choose one of the list.", "sequences"),
        ("sequence?id=never", "There is no sequence with the identifier 'never' (any more).", "sequences"),
        ("message?direction=inbound&position=9999", "does not wait any more", "messages"),
    ],
)
def test_an_address_of_nothing_leads_back_to_its_list(browser: Browser, page: str, text: str, section: str) -> None:
    answer = browser.get(page)
    assert answer.status == 404
    assert text in answer.words
    assert f'<a class="button" href="{section}">' in answer.text
    assert '<button type="button" class="main" id="back" hidden>' in answer.text, "the script shows it"


def test_future_lines_of_a_timeline_are_marked(browser: Browser, prepared: Prepared) -> None:
    page = browser.get(f"sequence?id={prepared.poisoned}")
    assert "to come: the handler is called again (failed once)" in page.words
    assert page.text.count('<li class="ahead">') == page.words.count("to come:")
    assert "to come: created" not in page.words


def test_sequences_are_filtered_by_a_state_in_the_words_of_the_table(browser: Browser) -> None:
    page = browser.get("sequences?state=SENDING")
    assert '<option value="SENDING" selected>sending</option>' in page.text
    assert 'data-label="State">sending' in page.text


def test_a_dead_letter_that_may_come_again_asks_before_it_takes_effect_twice(browser: Browser) -> None:
    assert "Also those that may have taken effect already" in browser.get("letters-redrive?letter=letter-10").words


def test_one_dead_letter_is_redriven_and_the_others_stay(browser: Browser, operations: Operations) -> None:
    page = browser.get("letter?id=letter-1")
    done = asked(browser, page, "letters-redrive")
    assert "1 redriven." in done.words
    assert "letter-1" not in letters(operations)
    assert len(letters(operations)) == 9
    assert browser.get("letter?id=letter-1").status == 404


def test_dead_letters_are_redirected_to_another_endpoint(browser: Browser, operations: Operations) -> None:
    question = browser.get(f"letters-redirect?endpoint={BILLING}")
    assert browser.submit(question, "letters-redirect").status == 400
    assert browser.submit(question, "letters-redirect", new_endpoint="nowhere").status in (400, 409)
    done = browser.submit(question, "letters-redirect", new_endpoint="http://billing-2.example/services/invoices")
    assert "7 redirected to http://billing-2.example/services/invoices." in done.words
    assert "billing-2.example" in browser.get("messages?state=unsent").words
    long = f"http://bank-2.example/{'x' * 900}"
    done = browser.submit(
        browser.get(f"letters-redirect?endpoint={BANK}"), "letters-redirect", new_endpoint=long, twice="1"
    )
    assert "2 redirected to http://bank-2.example/" in done.words, "the note is there, without its link"
    assert "What is sent again" not in done.words


def test_a_copy_of_a_dead_letter_is_edited_and_sent_as_a_new_message(browser: Browser, operations: Operations) -> None:
    page = browser.get("letter?id=letter-2")
    (href,) = [each for each in page.links() if each.startswith("letter-edit")]
    question = browser.get(href)
    payload = question.form("letter-edit")["payload"]
    assert "<o:id>2</o:id>" in payload
    for wrong in ("", "no XML", "<a><b></a>", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'):
        assert browser.submit(question, "letter-edit", payload=wrong).status == 400
    done = browser.submit(question, "letter-edit", payload=payload.replace("<o:id>2", "<o:id>2000"))
    assert "The edited copy is sent as message" in done.words
    assert "letter-2" not in letters(operations)
    (message,) = [each for each in done.links() if each.startswith("message?")]
    assert "<o:id>2000</o:id>" in browser.get(message).words


def test_dead_letters_are_discarded_after_a_question(browser: Browser, operations: Operations) -> None:
    question = browser.get(f"letters-discard?endpoint={BANK}")
    assert "deleted for good" in question.words
    done = browser.submit(question, "letters-discard", why="paid by hand")
    assert "2 discarded." in done.words
    assert letters(operations, LetterFilter(endpoint=BANK)) == []
    assert last(operations)[4] == "paid by hand"


# --- messages that are done, and the audit ---------------------------------------------------------------------------


def test_a_message_that_is_done_is_found_by_correlation_id_and_key_with_its_way(browser: Browser) -> None:
    by_correlation = browser.get("messages?correlation=reserve-2")
    assert "Done MessageID" in by_correlation.words
    by_key = browser.get("messages?state=done&key=shelf-1")
    assert [each for each in by_key.links() if each.startswith("settled?")] != []
    by_endpoint = browser.get("messages?state=done&key=shelf-1&endpoint=http%3A%2F%2Fclient%2Fservices%2Fstock")
    assert by_endpoint.words.count("key shelf-1") == by_key.words.count("key shelf-1") > 1
    assert "No message that is done and remembered matches." in browser.get("messages?state=done&key=none").words
    (href,) = [each for each in by_correlation.links() if each.startswith("settled?")]
    message = browser.get(href)
    assert "From commit to delivery" in message.words
    assert "handed over by the application, and stored transmitted as number 2 of its sequence" in message.words
    assert "key shelf-1" in message.words
    (sequence,) = [each for each in message.links() if each.startswith("sequence?")]
    assert browser.get(sequence).status == 200
    assert browser.get("settled?message_id=nothing").status == 404
    assert browser.get("messages?state=done&after=nowhere").status == 400


def test_the_audit_leads_to_what_was_changed_in_words_and_lists_its_actions(
    browser: Browser, prepared: Prepared
) -> None:
    page = browser.get("audit")
    assert "suspended by Grace Hopper" in page.words
    assert "paused by none" in page.words
    assert "_" not in page.words.partition("Before After")[2].partition("Store")[0].replace("_id", "")
    (sequence,) = [each for each in page.links() if each.startswith("sequence?")]
    assert "suspended by Grace Hopper" in browser.get(sequence).words
    (service,) = [each for each in page.links() if each.startswith("service?")]
    assert browser.get(service).title.startswith("prices")
    only = browser.get("audit?action=pause")
    assert "Hopper cli pause service prices Reason the new price list is wrong" in only.words
    assert "suspended by" not in only.words


def test_the_audit_of_a_bulk_action_leads_to_its_letters(browser: Browser) -> None:
    browser.submit(browser.get(f"letters-discard?endpoint={BANK}"), "letters-discard")
    page = browser.get("audit?action=discard")
    assert page.words.count("Ada console") == 1
    assert "dead letters 2" in page.words
    (bulk,) = {each for each in page.links() if each.startswith("bulk?")}
    (each_letter,) = [each for each in browser.get(bulk).links() if each.startswith("audit?")]
    letters_of = browser.get(each_letter)
    assert letters_of.words.count("Ada console") == 2
    assert {each for each in letters_of.links() if each.startswith("letter?")} == {
        "letter?id=letter-8",
        "letter?id=letter-9",
    }


# --- readers ---------------------------------------------------------------------------------------------------------

ACTIONS = (
    *("sequence-suspend", "sequence-resume", "sequence-close", "sequence-terminate", "sequence-restart"),
    "sequence-destination",
    *("message-retry", "message-park", "service-pause", "service-resume", "doubt-resolve"),
    *("letters-redrive", "letters-redirect", "letters-discard", "letter-edit"),
)


def test_a_reader_sees_every_page_and_no_action(browser: Browser, operations: Operations, prepared: Prepared) -> None:
    browser.cookies.clear()
    home = browser.log_in(READER)
    before = len(operations.audit(limit=100).items)
    for page in (
        *("", "sequences", "messages", "letters", "services", "doubt", "nodes", "audit", "letter?id=letter-1"),
        *(f"sequence?id={prepared.gap}", "message?direction=inbound&position=1", "service?name=orders"),
    ):
        seen = browser.get(page)
        assert seen.status == 200
        assert 'action="logout"' in seen.text
        assert not any(f'action="{each}"' in seen.text or f'href="{each}' in seen.text for each in ACTIONS)
    for action in ACTIONS:
        answer = browser.post(
            action, home.form("logout") | {"id": prepared.gap, "name": "orders", "letter": "letter-1"}
        )
        assert answer.status == 403, action
        assert "logged in as a reader" in answer.words
        assert browser.get(f"{action}?id={prepared.gap}").status in (403, 405), action
    assert len(operations.audit(limit=100).items) == before
    assert len(letters(operations)) == 10
