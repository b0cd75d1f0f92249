"""The limits for messages of peers, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

HOSTILE = "tests/unit/wire/test_hostile_input.py"
FRAGMENTS = "tests/unit/wire/test_mapping_fragments.py"
MTOM = "tests/unit/wire/test_mtom.py"
TOO_MUCH = "test_input_above_a_limit_is_refused_with_the_name_of_the_limit"


def limit(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A limit on what a peer sends that is not looked at."""
    return Mutant(f"limit: {name}", (Change(symbol, before, after),), test=f"{HOSTILE}::{test}")


def mtom(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of MTOM messages that is removed."""
    return Mutant(f"mtom: {name}", (Change(f"mercury.wire.{symbol}", before, after),), test=f"{MTOM}::{test}")


#: Attributes are not counted before they are parsed, only while.
NOT_CROWDED = Change("mercury.wire.scan:Scanner.run", "if excess is not None:", "if False:")

WIRE = (
    mtom(
        "size with the parts",
        "xop:_with_parts",
        "if size > limits.max_bytes:",
        "if False:",
        "test_size_is_that_with_the_content_of_the_parts",
    ),
    mtom(
        "parts that are named often",
        "xop:_with_parts",
        "if size > max(GROWTH * received, len(envelope)):",
        "if False:",
        "test_part_that_is_named_often_does_not_grow_the_message_above_twice_its_size",
    ),
    mtom("number of parts", "multipart:split", "if len(parts) == most:", "if False:", "test_parts_are_counted"),
    mtom(
        "one part for each Content-ID",
        "xop:_by_id",
        "if part.content_id and named.setdefault(part.content_id, part) is not part:",
        "if named.setdefault(part.content_id, part) is None:",
        "test_parts_that_do_not_fit_are_refused",
    ),
    mtom(
        "canonical base64",
        "xop:_canonical",
        "and binascii.b2a_base64(binary, newline=False) == text",
        "",
        "test_text_that_would_not_come_back_in_the_same_characters_stays",
    ),
    limit(
        "bytes",
        "mercury.wire.scan:Scanner.run",
        "if len(self.data) > limit:",
        "if False:",
        "test_body_too_large_after_decoding_is_refused",
    ),
    limit(
        "DOCTYPE",
        "mercury.wire.scan:Scanner.__init__",
        "parser.StartDoctypeDeclHandler = self._doctype",
        "pass",
        "test_a_doctype_is_refused_and_nothing_of_it_is_used",
    ),
    limit(
        "depth",
        "mercury.wire.scan:Scanner._check",
        "if self._depth > limits.max_depth:",
        "if False:",
        f"{TOO_MUCH}[deep]",
    ),
    limit(
        "elements",
        "mercury.wire.scan:Scanner._check",
        "if self._elements > limits.max_elements:",
        "if False:",
        f"{TOO_MUCH}[wide]",
    ),
    Mutant(
        "limit: attributes",
        (
            NOT_CROWDED,
            Change(
                "mercury.wire.scan:Scanner._check",
                "if len(attributes) // 2 + len(pending) > limits.max_attributes:",
                "if False:",
            ),
        ),
        test=f"{HOSTILE}::{TOO_MUCH}[attributes and namespaces]",
    ),
    Mutant(
        "limit: namespaces",
        (
            NOT_CROWDED,
            Change("mercury.wire.scan:Scanner._declare", "if len(pending) > self._limits.max_attributes:", "if False:"),
        ),
        test=f"{HOSTILE}::{TOO_MUCH}[namespaces]",
    ),
    limit(
        "attributes before they are parsed",
        "mercury.wire.scan:Scanner.run",
        "if excess is not None:",
        "if False:",
        "test_too_many_attributes_are_refused_before_the_parser_has_read_them",
    ),
    limit(
        "names",
        "mercury.wire.scan:Scanner._check_length",
        "if len(name.encode()) > limit:",
        "if False:",
        f"{TOO_MUCH}[name]",
    ),
    limit(
        "header blocks",
        "mercury.wire.scan:Scanner._start",
        'if depth == 3 and len(parent.children) > self._limits.max_headers and parent.local == "Header":',
        "if False:",
        f"{TOO_MUCH}[header blocks]",
    ),
    limit(
        "URIs",
        "mercury.wire.read_common:Document.uri",
        "if len(text.encode()) > self.limits.max_uri_length:",
        "if False:",
        f"{TOO_MUCH}[identifier]",
    ),
    limit(
        "ranges",
        "mercury.wire.read_rm:read_acknowledgement",
        "if len(pairs) > limit or len(nacks) > limit:",
        "if False:",
        "test_an_acknowledgement_of_too_many_ranges_is_refused",
    ),
    limit(
        "namespace declarations",
        "mercury.wire.cut:Allowance.take",
        "        if self._left < 0:",
        "        if False:",
        "test_long_namespaces_repeated_for_every_header_block_are_refused",
    ),
    Mutant(
        "limit: namespace declarations in raw XML",
        (Change("mercury.wire.mapping_fragments:Fragments._declarations", "if self._left < 0:", "if False:"),),
        test=f"{FRAGMENTS}::test_declarations_that_every_element_uses_are_refused_above_the_limit",
    ),
    limit(
        "copies of a text in pieces",
        "mercury.wire.mapping_parse:parse_values",
        "target=_Target(), ",
        "",
        "test_text_in_many_pieces_is_joined_once[comments]",
    ),
    limit(
        "digits of a reference",
        "mercury.wire.cut:_SEPARATORS",
        "0*+([0-9]{1,7})",
        "([0-9]+)",
        "test_a_reference_with_any_number_of_leading_zeros_is_read_and_written_again[&#%s65;-5000]",
    ),
    limit(
        "reference parameters",
        "mercury.wire.read_addressing:read_endpoint",
        "or sum(map(len, parameters)) > document.limits.max_parameters_bytes",
        "or False",
        "test_an_endpoint_reference_that_would_make_every_reply_huge_is_refused",
    ),
    Mutant(
        "limit: envelope of a message in a file",
        (
            Change(
                "mercury.wire.xop:unpack",
                "    if len(root) > limits.max_bytes:",
                "    if False:",
            ),
        ),
        test="tests/unit/wire/test_attachments.py"
        "::test_envelope_of_a_message_in_a_file_is_refused_before_it_is_in_memory",
    ),
    Mutant(
        "limit: message in a file",
        (Change("mercury.wire.decode:_Reading.envelope", "if len(data) > most:", "if False:"),),
        test="tests/unit/wire/test_attachments.py"
        "::test_large_message_is_refused_if_it_is_no_package_or_its_envelope_is_large",
    ),
    Mutant(
        "limit: body in a file",
        (Change("mercury.service.bodies:Bodies.read", "if size > most:", "if False:"),),
        test="tests/unit/service/test_bodies.py::test_body_above_its_limit_is_refused",
    ),
    Mutant(
        "limit: attachments of an operation that takes none",
        (
            Change(
                "mercury.engine.destination.messages:_refusal",
                "if envelope.parts and not operation.takes_attachments:",
                "if False:",
            ),
        ),
        test="tests/acceptance/test_attachments.py"
        "::test_operation_without_attachments_refuses_what_is_too_large_for_memory",
    ),
    Mutant(
        "large part in base64",
        (Change("mercury.wire.xop:_with_parts", "if part.base64:", "if False:"),),
        test="tests/unit/wire/test_attachments.py::test_large_part_in_base64_is_refused",
    ),
    Mutant(
        "exchange of a message with attachments",
        (
            Change(
                "mercury.engine.runtime.sender_pool:SenderPool._run",
                "math.inf if outgoing.envelope.parts else self._clock()",
                "self._clock()",
            ),
        ),
        test="tests/unit/engine/runtime/test_sender_pool.py"
        "::test_a_message_with_attachments_is_under_way_until_its_exchange_ends_however_long_it_takes",
    ),
)
