"""The limits for messages of peers, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

RAISED = "tests/acceptance/test_raised_limits.py"
HOSTILE = "tests/unit/wire/test_hostile_input.py"
FRAGMENTS = "tests/unit/wire/test_mapping_fragments.py"
MTOM = "tests/unit/wire/test_mtom.py"
TOO_MUCH = "test_input_above_a_limit_is_refused_with_the_name_of_the_limit"


def limit(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A limit on what a peer sends that is not looked at."""
    return Mutant(f"limit: {name}", (Change(symbol, before, after),), test=f"{HOSTILE}::{test}")


def raised(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """Limits of what this side sends that are not those of its settings."""
    return Mutant(f"set limits: {name}", (Change(symbol, before, after),), test=test)


def mtom(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of MTOM messages that is removed."""
    return Mutant(f"mtom: {name}", (Change(f"mercury.wire.{symbol}", before, after),), test=f"{MTOM}::{test}")


def shape(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for reading a message by its shape that is removed."""
    change = Change(f"mercury.wire.shapes:{symbol}", before, after)
    return Mutant(f"shape: {name}", (change,), test=f"tests/unit/wire/test_shapes.py::{test}")


def body_shape(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for reading what makes a sequence, or a batch, by its shape that is removed."""
    change = Change(f"mercury.wire.{symbol}", before, after)
    return Mutant(f"shape: {name}", (change,), test=f"tests/unit/wire/test_shapes_of_bodies.py::{test}")


def posting(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A rule of posting that is removed."""
    change = Change(f"mercury.engine.runtime.{symbol}", before, after)
    return Mutant(f"posting: {name}", (change,), test=f"tests/unit/engine/runtime/{test}")


def prepared(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for writing a message from prepared parts that is removed."""
    change = Change(f"mercury.wire.prepared:{symbol}", before, after)
    return Mutant(f"prepared: {name}", (change,), test=f"tests/unit/wire/test_prepared.py::{test}")


def written(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for reading an element without a parser that is removed."""
    change = Change(f"mercury.wire.mapping_written:{symbol}", before, after)
    return Mutant(f"written: {name}", (change,), test=f"tests/unit/wire/test_mapping_written.py::{test}")


def text_of_fault(name: str, before: str, after: str) -> Mutant:
    """A value in a handler's fault that is not written as a text."""
    change = Change("mercury.errors:_text", before, after)
    test = "tests/unit/test_errors.py::test_other_values_than_texts_in_a_fault_are_written_as_texts"
    return Mutant(f"text of a fault: {name}", (change,), test=test)


#: Attributes are not counted before they are parsed, only while.
NOT_CROWDED = Change("mercury.wire.scan:Scanner.run", "if excess is not None:", "if False:")

CONTENT_TEST, VALUE_TEST = "test_content_is_read_as_in_full", "test_other_value_is_read_as_in_full"
ACKNOWLEDGEMENT_TEST = "test_other_acknowledgement_is_read_as_in_full"

OTHER_TEST = "test_every_other_element_is_left_to_the_parser_that_reads_or_refuses_it"
WIRE = (
    written("the end tag of a root of any name", "_anywhere", "</\\\\1>", "</{_ROOT}>", OTHER_TEST),
    written("namespaces that a parser refuses", "_SCOPE", r"(?!http://www\.w3\.org/)", "", OTHER_TEST),
    written("characters of namespaces that a parser refuses", "_SCOPE", "[A-Z", "[}A-Z", OTHER_TEST),
    written("size of an element of any name", "written_anywhere", "len(xml) > MOST_BYTES", "False", OTHER_TEST),
    written(
        "characters that a parser changes",
        "_PLAIN",
        "[^&<>\\r",
        "[^&<>",
        "test_any_text_means_what_a_parser_finds_in_it",
    ),
    written(
        "end of a CDATA section",
        "_PLAIN",
        "[^&<>",
        "[^&<",
        "test_any_text_means_what_a_parser_finds_in_it",
    ),
    written(
        "characters that a parser refuses",
        "_PLAIN",
        "\\ufffe\\uffff",
        "",
        "test_any_text_means_what_a_parser_finds_in_it",
    ),
    written(
        "attributes",
        "_form",
        "plan.attributes or ",
        "",
        "test_classes_with_attributes_or_lists_and_odd_namespaces_are_left_to_the_parser",
    ),
    written(
        "an absent element with a default",
        "_element",
        "member.optional and not member.nil",
        "member.optional",
        "test_everything_else_is_left_to_the_parser",
    ),
    written("size", "written_values", "len(xml) > MOST_BYTES", "False", "test_everything_else_is_left_to_the_parser"),
    prepared(
        "prefixes of the body",
        "PreparedEnvelopes.encode",
        "if each in xml:",
        "if False:",
        "test_every_kind_of_message_is_the_same_as_when_it_is_written_from_nothing",
    ),
    prepared(
        "version of WS-RM",
        "PreparedEnvelopes._kind",
        "            or kind.rm is not envelope.rm\n",
        "",
        "test_versions_of_one_endpoint_do_not_mix",
    ),
    posting(
        "replies that are noted in the store",
        "posting:Posting._blocks",
        "if self._engine.reply_needs_store(begun.outgoing, empty=empty):",
        "if False:",
        "test_posting.py::test_reply_that_blocks_is_handled_in_a_helper_thread[noted in the store]",
    ),
    posting(
        "room of an exchange until its reply is taken",
        "posting:Posting._finish",
        "over += replied[:taken]",
        "over += replied",
        "test_posting.py::test_reply_that_the_committer_has_no_room_for_keeps_the_room_of_its_exchange",
    ),
    posting(
        "posts that come while it stops",
        "sender_pool:SenderPool._begun",
        " - len(self._ready)",
        "",
        "test_sender_pool.py::test_posts_that_come_while_it_stops_are_not_waited_for",
    ),
    posting(
        "a kept connection that was closed",
        "exchange_loop:ExchangeLoop._broke",
        "if is_kept and isinstance(",
        "if False and isinstance(",
        "test_transport.py::test_a_kept_connection_that_was_closed_meanwhile_is_replaced",
    ),
    Mutant(
        "posting: a kept connection over TLS that was closed",
        (Change("mercury.engine.runtime.exchange_loop:ExchangeLoop._broke", " | ssl.SSLEOFError", ""),),
        test="tests/acceptance/test_tls.py"
        "::test_kept_connection_over_tls_that_is_closed_while_a_large_request_is_sent_is_replaced",
    ),
    posting(
        "silent address of a host with others",
        "http_connection:HttpConnection._limit_connect",
        "if self._addresses:",
        "if False:",
        "test_hosts_of_several_addresses.py::test_host_whose_first_addresses_are_silent_is_reached_by_another",
    ),
    posting(
        "share of the time that an address of a host has",
        "http_connection:HttpConnection._limit_connect",
        "min(LONGEST_CONNECT, part)",
        "LONGEST_CONNECT",
        "test_hosts_of_several_addresses.py::test_silent_address_takes_only_its_share_of_the_time_of_the_exchange",
    ),
    posting(
        "address of a family that is off",
        "http_connection:HttpConnection._connect_to_next",
        "except OSError as error:",
        "except ZeroDivisionError as error:",
        "test_hosts_of_several_addresses.py::test_host_with_an_address_of_a_family_that_is_off_is_reached_by_another",
    ),
    posting(
        "exchanges after one that cannot begin",
        "exchange_loop:ExchangeLoop._begin_all",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        "test_exchanges_that_cannot_begin.py::test_unexpected_error_at_the_begin_of_an_exchange_ends_it_and_no_other",
    ),
    posting(
        "a call while the thread is being started",
        "exchange_loop:ExchangeLoop.run",
        "if self._waits:",
        "elif self._waits:",
        "test_exchanges_that_cannot_begin.py::test_call_made_while_the_thread_is_being_started_wakes_it",
    ),
    posting(
        "early reply",
        "http_connection:HttpConnection._flush",
        "except (ConnectionError, ssl.SSLEOFError) as cut:",
        "except ZeroDivisionError as cut:",
        "test_transport.py::test_refusal_of_a_body_that_is_still_on_its_way_is_read",
    ),
    posting(
        "length of a reply with a known header",
        "http_reply:KnownHeads.read",
        "if known is None or len(data) != end + known[3]:",
        "if known is None:",
        "test_transport.py::test_other_reply_than_one_with_a_known_header_is_parsed[unsolicited bytes]",
    ),
    posting(
        "replies that close their connection have no known header",
        "http_reply:KnownHeads.learn",
        " or reply.will_close",
        "",
        "test_transport.py::test_header_of_such_a_reply_is_not_remembered[closes]",
    ),
    posting(
        "redirects have no known header",
        "http_reply:KnownHeads.learn",
        " or reply.location is not None",
        "",
        "test_transport.py::test_redirect_is_not_followed_and_its_target_is_read",
    ),
    posting(
        "connections to another store are not kept",
        "http_reply:Reply.on_message_complete",
        "self.status == MISDIRECTED or ",
        "",
        "test_store_guard.py::test_connection_to_another_store_is_not_kept_because_a_load_balancer_may_lead_the_next_"
        "one_elsewhere[421-False]",
    ),
    posting(
        "bytes on an idle connection",
        "kept_connections:KeptConnections.take",
        " and not has_input(connection.sock)",
        "",
        "test_kept_connections.py::test_connection_with_unsolicited_bytes_is_not_taken",
    ),
    shape("beginning", "Shape.read", "if not data.startswith(before):", "if False:", VALUE_TEST),
    shape("between values", "Shape.read", "or not data.startswith(after, end)", "", VALUE_TEST),
    shape("plain value", "Shape.read", "if gap.pattern.fullmatch(value) is None:", "if False:", VALUE_TEST),
    shape(
        "end of a Body without content",
        "Shape.read",
        "of_known if at == len(data) else None",
        "of_known",
        "test_shape_whose_body_is_one_tag_has_no_content",
    ),
    shape("declaration and DOCTYPE", "Shape._content", 'b"<!" in xml or b"<?" in xml or ', "", CONTENT_TEST),
    shape(
        "byte order mark",
        "Shape._content",
        'xml[:1] != b"<" or ',
        "",
        "test_content_in_an_encoding_that_expat_detects_is_refused",
    ),
    shape(
        "UTF-16 without a byte order mark",
        "Shape._content",
        'xml[1:2] == b"\\0" or ',
        "",
        "test_content_in_an_encoding_that_expat_detects_is_refused",
    ),
    shape("character reference", "Shape._content", 'or b"&#" in xml', "", CONTENT_TEST),
    shape(
        "prefix of the envelope", "Shape._content", "if needle in xml and uses(xml, prefix):", "if False:", CONTENT_TEST
    ),
    shape("protocol in the Body", "Shape._content", "or namespace in _PROTOCOLS", "", CONTENT_TEST),
    shape(
        "elements",
        "Shape._root",
        "elements > min(limits.max_depth, limits.max_elements)",
        "False",
        "test_elements_and_attributes_of_the_header_count",
    ),
    shape(
        "attributes",
        "Shape._root",
        "attributes > min(limits.max_attributes, limits.max_total_attributes)",
        "False",
        "test_elements_and_attributes_of_the_header_count",
    ),
    shape("names", "Shape._root", "len(xml) + _XML_NAMESPACE > limits.max_name_length", "False", CONTENT_TEST),
    shape(
        "namespace without declaration",
        "Shape._root",
        " + _XML_NAMESPACE",
        "",
        "test_namespace_that_needs_no_declaration_counts_for_the_length_of_a_name",
    ),
    shape("ranges", "Shape._filled", "if any(low > high for low, high in ranges):", "if False:", ACKNOWLEDGEMENT_TEST),
    shape(
        "default namespace of the envelope",
        "shape_of",
        'or declared.get("")',
        "",
        "test_content_in_the_default_namespace_of_the_envelope_gets_its_declaration",
    ),
    shape(
        "elements of the header",
        "shape_of",
        "max_elements=limits.max_elements - elements",
        "max_elements=limits.max_elements",
        "test_elements_and_attributes_of_the_header_count",
    ),
    shape(
        "attributes of the header",
        "shape_of",
        "max_total_attributes=limits.max_total_attributes - attributes",
        "max_total_attributes=limits.max_total_attributes",
        "test_elements_and_attributes_of_the_header_count",
    ),
    shape(
        "depth of the Body", "shape_of", "max_depth=limits.max_depth - 2", "max_depth=limits.max_depth", CONTENT_TEST
    ),
    shape(
        "bytes",
        "Shapes.read",
        "if len(data) <= self._limits.max_bytes:",
        "if True:",
        "test_message_above_the_limit_on_its_bytes_is_refused",
    ),
    shape(
        "number of kinds",
        "Shapes.add",
        "if kind not in self._known and len(self._known) >= MAX_KINDS:",
        "if False:",
        "test_number_of_shapes_is_bounded",
    ),
    shape("number of shapes", "Shapes.add", "*known[: MAX_SHAPES - 1]", "*known", "test_number_of_shapes_is_bounded"),
    shape(
        "size of a header",
        "shape_of",
        "tag.end() > MAX_HEADER or ",
        "",
        "test_header_above_the_limit_has_no_shape",
    ),
    shape(
        "what was cut out of a header",
        "shape_of",
        " + envelope.cut_out",
        "",
        "test_texts_kept_beside_a_header_are_bounded_as_the_header_is",
    ),
    shape(
        "HTTP headers of a kind",
        "Shapes.add",
        'if sum(len(text or "") for text in kind[:2]) > MAX_HEADER:',
        "if False:",
        "test_texts_kept_beside_a_header_are_bounded_as_the_header_is",
    ),
    shape(
        "shapes of which none is met again",
        "Shapes.wanted",
        "self._unknown <= PATIENCE or self._unknown % SAMPLE == 0",
        "True",
        "test_few_shapes_are_kept_while_no_message_has_a_known_one",
    ),
    body_shape(
        "size of a body", "shapes:shape_of", " or len(data) > MAX_HEADER", "", "test_large_creation_has_no_shape"
    ),
    body_shape(
        "predecessor",
        "made_names:name_node",
        " or making.follows is not None",
        "",
        "test_creation_that_names_its_predecessor_has_no_shape",
    ),
    body_shape(
        "declarations of a batch",
        "shapes:Shape._batch",
        "if known.headers:",
        "if False:",
        "test_declarations_that_a_batch_needs_count_with_those_of_header_blocks",
    ),
    body_shape(
        "batch outside any sequence",
        "shapes:Shape._batch",
        "if self.sequence is None or known.sequence is None:",
        "if False:",
        "test_batch_in_a_message_outside_any_sequence_is_refused_as_in_full",
    ),
    Mutant(
        "shape: another encoding",
        (Change("mercury.wire.decode:_Reading.shape", " or not is_plain_utf8(data, self.charset)", ""),),
        test="tests/unit/wire/test_shapes.py::test_message_in_another_encoding_has_no_shape",
    ),
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
        "UTF-16",
        "mercury.wire.scan:Scanner.run",
        'if b"\\0" in self.data[:2] or self.data[:2] in _UTF16:',
        "if False:",
        "test_wrongly_encoded_document_is_refused",
    ),
    limit(
        "depth",
        "mercury.wire.scan:Scanner._check",
        "if self._depth > self._max_depth:",
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
        "attributes that the parser has not read yet",
        "mercury.wire.scan:Scanner._find_excess",
        'b"=" * (limit + 1) not in',
        'b"=" * 2**30 not in',
        "test_too_many_attributes_are_refused_before_the_parser_has_read_them",
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
    Mutant(
        "limit: bytes of an object's XML",
        (Change("mercury.wire.bodies:write_body", " and len(xml) <= limits.max_bytes", ""),),
        test="tests/unit/wire/test_bodies.py::test_an_object_that_is_larger_than_a_message_may_be_is_refused",
    ),
    raised(
        "of a body that is sent",
        "mercury.client.sender:Sender._row",
        ", attached=True, limits=limits)",
        ", attached=True)",
        f"{RAISED}::test_body_above_the_default_limits_is_answered_by_one",
    ),
    Mutant(
        "limit: room for the envelope of a body",
        (Change("mercury.wire.bodies:write_body", "limits = limits_of_body(limits)", "pass"),),
        test="tests/unit/wire/test_bodies.py"
        "::test_a_body_at_its_limits_is_taken_in_a_full_envelope_and_one_above_is_not_sent",
    ),
    Mutant(
        "limit: room for the envelope of a fault's detail",
        (
            Change(
                "mercury.wire.application_fault:write_application_fault", "limits_of_body(limits, _LEVELS)", "limits"
            ),
        ),
        test="tests/unit/wire/test_bodies.py::test_detail_of_a_fault_has_room_for_the_fault",
    ),
    Mutant(
        "limit: header blocks of the application",
        (Change("mercury.wire.payload:check_headers", "if len(given) > limits.max_headers:", "if False:"),),
        test="tests/unit/wire/test_bodies.py"
        "::test_header_blocks_of_the_application_are_counted_and_share_the_limits_of_the_body",
    ),
    Mutant(
        "limit: header blocks together with their body",
        (Change("mercury.wire.payload:check_headers", "    if blocks:", "    if False:"),),
        test="tests/unit/wire/test_bodies.py"
        "::test_header_blocks_of_the_application_are_counted_and_share_the_limits_of_the_body",
    ),
    raised(
        "of a response",
        "mercury.service.definition:_call.call",
        "write(result, context.limits)",
        "write(result, Limits())",
        f"{RAISED}::test_body_above_the_default_limits_is_answered_by_one",
    ),
    raised(
        "of the responses of a list",
        "mercury.service.definition:_call_together.call",
        "write(result, contexts[0].limits)",
        "write(result, Limits())",
        f"{RAISED}::test_body_above_the_default_limits_is_answered_by_one",
    ),
    raised(
        "of a response, for its handler",
        "mercury.engine.delivery.handler_call:HandlerCall.message_context",
        "            limits=self._context.settings.limits,\n",
        "",
        f"{RAISED}::test_body_above_the_default_limits_is_answered_by_one",
    ),
    raised(
        "of a response by a schema",
        "mercury.service.wsdl_first:WsdlFirst.writer.write",
        ", limits=limits)",
        ")",
        "tests/acceptance/test_wsdl_first.py::test_response_by_the_schema_has_the_limits_that_are_set",
    ),
    raised(
        "of a fault",
        "mercury.engine.delivery.handler_call:HandlerCall._written",
        ", limits=self._context.settings.limits)",
        ")",
        f"{RAISED}::test_detail_of_a_fault_may_be_above_the_default_limits",
    ),
    raised(
        "of an object whose form is known",
        "mercury.wire.bodies:write_body",
        "len(xml) <= limits.max_bytes",
        "len(xml) <= DEFAULT_LIMITS.max_bytes",
        "tests/unit/wire/test_bodies.py::test_the_limits_of_a_body_are_those_that_are_set",
    ),
    Mutant(
        "limit: elements of an object's XML",
        (Change("mercury.wire.mapping_plan:_has_single_values", " and member.many is None", ""),),
        test="tests/unit/wire/test_bodies.py::test_objects_with_lists_and_with_raw_xml_are_checked_one_by_one",
    ),
    limit(
        "bytes that the parser of values is given at once",
        "mercury.wire.mapping_parse:FED_AT_ONCE",
        "256 * 1024",
        "2**40",
        "test_parser_has_no_copy_of_a_large_document",
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
        "if left < 0:",
        "if False:",
        "test_an_endpoint_reference_that_would_make_every_reply_huge_is_refused",
    ),
    limit(
        "reference parameters in all lists",
        "mercury.wire.read_addressing:read_endpoint",
        "if sum([len(part.children) for part in node.children if part.name in _PARAMETERS]) > limits.max_headers:",
        "if False:",
        "test_reference_parameters_in_many_lists_are_counted_before_the_first_is_cut_out",
    ),
    limit(
        "reference parameters that are cut out",
        "mercury.wire.read_addressing:read_endpoint",
        "                if left < 0:",
        "                if left < 0 and parameter is part.children[-1]:",
        "test_reference_parameters_are_cut_out_no_further_than_to_the_limit_on_their_bytes",
    ),
    limit(
        "prefixes that an element is searched for",
        "mercury.wire.cut:_used",
        "if len(prefixes) > FEW_PREFIXES:",
        "if False:",
        "test_messages_of_a_batch_are_not_searched_for_each_prefix_around_them",
    ),
    limit(
        "declarations that are collected once",
        "mercury.wire.scan:Scope.all",
        "if self._all is None:",
        "if True:",
        "test_messages_of_a_batch_are_not_searched_for_each_prefix_around_them",
    ),
    *(
        Mutant(
            f"cut: {name}",
            (Change("mercury.wire.cut:Prefixes.used_in", before, after),),
            test="tests/unit/wire/test_cut.py::test_prefixes_are_found_by_one_reading_as_by_a_search_for_each",
        )
        for name, before, after in (
            ("end of a longer word", "word[begin - 1] not in LETTERS", "True"),
            ("prefix behind the first character of a word", "word[begin - 1] not in LETTERS", "False"),
            ("word in two pieces", 'plain.find(b":", at + _PIECE) + 1 or len(plain)', "at + _PIECE"),
        )
    ),
    Mutant(
        "cut: steps of the search for prefixes",
        (
            Change(
                "mercury.wire.cut:Prefixes.used_in",
                "return found if self._steps.left >= 0 else self._sought.values()",
                "return found",
            ),
        ),
        test="tests/unit/wire/test_cut.py::test_all_prefixes_count_as_used_once_finding_them_takes_too_long",
    ),
    Mutant(
        "cut: steps of the search in a batch",
        (
            Change(
                "mercury.wire.cut:cut",
                "steps = allowance.steps if allowance is not None else Steps()",
                "steps = Steps()",
            ),
        ),
        test="tests/unit/wire/test_cut.py::test_elements_of_one_document_share_the_limit_on_the_search_for_prefixes",
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
        "file of a body that has only been announced",
        (
            Change(
                "mercury.service.bodies:_Received.add",
                "if self._spool is None and self._bytes.tell() > self._most:",
                "if self._spool is None:",
            ),
        ),
        test="tests/unit/service/test_bodies.py"
        "::test_announced_body_has_no_file_before_more_bytes_have_come_than_memory_may_have",
    ),
    Mutant(
        "log of requests that no file can be opened for",
        (
            Change(
                "mercury.service.bodies:Bodies._log_no_file",
                'if self._no_file.allow("", asyncio.get_running_loop().time()):',
                "if True:",
            ),
        ),
        test="tests/unit/service/test_bodies.py"
        "::test_request_is_refused_as_busy_if_no_file_can_be_opened_and_that_is_logged_once",
    ),
    Mutant(
        "limit: file descriptors of requests in files",
        (Change("mercury.service.connections:Connections.__init__", "(2 if in_files else 1)", "1"),),
        test="tests/unit/service/test_descriptors.py"
        "::test_connection_counts_as_two_descriptors_if_a_service_takes_attachments",
    ),
    Mutant(
        "time of a body behind a request that is held",
        (
            Change(
                "mercury.service.http11:Http11Protocol.on_headers_complete",
                "if self.running is not self.cycle:",
                "if False:",
            ),
        ),
        test="tests/acceptance/test_http_limits.py"
        "::test_body_behind_a_request_that_is_held_has_its_time_from_the_answer_on[comes]",
    ),
    Mutant(
        "limit: time of a body behind a request that was held",
        (
            Change(
                "mercury.service.http11:Http11Protocol.on_response_complete",
                "if self._reading is Reading.BODY and cycle is self.cycle:",
                "if False:",
            ),
        ),
        test="tests/acceptance/test_http_limits.py"
        "::test_body_behind_a_request_that_is_held_has_its_time_from_the_answer_on[does not come]",
    ),
    Mutant(
        "limit: file descriptors of the services of an application",
        (Change("mercury.service.serving:server_for", "in_files=takes_attachments(app)", "in_files=False"),),
        test="tests/unit/service/test_descriptors.py::test_server_counts_the_files_of_the_services_of_its_application",
    ),
    Mutant(
        "limit: file descriptors of an application in another server",
        (
            Change(
                "mercury.service.http11:Http11Protocol.__init__",
                "connections_of(server_state, lambda: takes_attachments(config.loaded_app))",
                "connections_of(server_state)",
            ),
        ),
        test="tests/unit/service/test_descriptors.py::test_server_that_mercury_does_not_start_counts_the_files_too",
    ),
    Mutant(
        "limit: empty messages that are not the last one",
        (
            Change(
                "mercury.engine.destination.messages:_refusal",
                "if header.last and _is_bare_last(exchange, body):",
                "if _is_bare_last(exchange, body):",
            ),
        ),
        test="tests/scenario/test_backlog_bytes.py"
        "::test_empty_messages_that_only_look_like_the_last_one_are_not_stored_without_limit",
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
        "acknowledgement of two sequences",
        (Change("mercury.wire.read_rm:read_acknowledgement", "if named:", "if False:"),),
        test="tests/unit/wire/test_reading_rm.py::test_an_acknowledgement_that_names_two_sequences_is_refused",
    ),
    Mutant(
        "fault about two sequences",
        (Change("mercury.wire.read_fault:_same", "if before and named and before != named:", "if False:"),),
        test="tests/unit/wire/test_faults.py"
        "::test_a_fault_that_names_one_sequence_twice_is_about_it_and_one_that_names_two_is_refused",
    ),
    Mutant(
        "message of a sequence without WS-Addressing",
        (Change("mercury.wire.decode:_Reading._assemble", "if self.addressing is None:", "if False:"),),
        test="tests/scenario/test_odd_peers.py"
        "::test_a_message_without_ws_addressing_is_refused_and_may_come_again_as_it_should_be",
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
                "mercury.engine.runtime.in_flight:InFlight.begin",
                "math.inf if outgoing.envelope.parts else now",
                "now",
            ),
        ),
        test="tests/unit/engine/runtime/test_sender_pool.py"
        "::test_a_message_with_attachments_is_under_way_until_its_exchange_ends_however_long_it_takes",
    ),
    text_of_fault(
        "no reason and no code are empty",
        "if value is None:",
        "if False:",
    ),
    text_of_fault(
        "an exception as the reason, a number as the code",
        "value if isinstance(value, str) else text_of(value)",
        "value",
    ),
    text_of_fault(
        "a member of an enum of texts as the code",
        "value if isinstance(value, str) else text_of(value)",
        "text_of(value)",
    ),
)
