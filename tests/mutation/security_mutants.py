"""The guards of WS-Security, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

SIGNATURES = "tests/unit/security/test_signature_attacks.py"
MOVED = f"{SIGNATURES}::test_moved_altered_and_unsigned_parts_are_refused"
FORM = f"{SIGNATURES}::test_signature_of_an_unacceptable_form_is_refused_although_its_key_is_trusted"
KEYS = f"{SIGNATURES}::test_key_of_an_unacceptable_form_is_refused"
USERS = "tests/unit/security/test_usernames.py"
CERTIFICATES = "tests/unit/security/test_certificates.py"
ENCRYPTION = "tests/unit/security/test_encryption_attacks.py"
ENGINE = "tests/unit/engine/test_message_security.py"
DECODING = "tests/unit/service/test_endpoint_turns.py"
POLICIES = "tests/unit/wsdl/test_policy.py"
PUBLISHED = "tests/acceptance/test_wsdl_security.py"
STORIES = "tests/scenario/test_message_security.py"
SETTINGS = "tests/unit/security/test_settings.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"security: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


SECURITY = (
    guard(
        "signed elements stand at their places",
        "security.party:_rebuilt",
        "element.getparent() not in (tree.header, security)",
        "False",
        f"{MOVED}[body_moved_into_a_header_block]",
    ),
    guard(
        "an identifier is that of one element",
        "security.message:SoapTree.by_ids",
        "if len(each) != 1:",
        "if not each:",
        f"{MOVED}[body_with_the_id_in_another_attribute]",
    ),
    guard(
        "the Body is signed",
        "security.party:_rebuilt",
        "if tree.body not in signed:",
        "signed.setdefault(tree.body, etree.tostring(tree.body))\n    if False:",
        f"{FORM}[body not signed]",
    ),
    guard(
        "two references mean one element in one form",
        "security.signature:_referred",
        "if any(one is other and kept != also for one, kept in found for other, also in found):",
        "if False:",
        f"{FORM}[an element in two forms]",
    ),
    guard(
        "the suites that a policy may name beside Metro's attribute",
        "wsdl.security_policy:_suites_with_sha2",
        "suite.get(names.SIGNATURE_ALGORITHM) in _SIGNATURES",
        "suite.get(names.SIGNATURE_ALGORITHM)",
        f"{POLICIES}::test_security_that_is_not_supported_is_named",
    ),
    guard(
        "AES-CBC in a policy",
        "wsdl.security_policy:read_security",
        "for suite in by_digest if encrypted]",
        "for suite in by_digest if False]",
        f"{POLICIES}::test_security_that_is_not_supported_is_named",
    ),
    guard(
        "a WSDL with a policy is published unchanged",
        "wsdl.contract:WsdlContract.published",
        "if policy is not None and reference is not None and not self.has_policy:",
        "if policy is not None and reference is not None:",
        f"{PUBLISHED}::test_given_wsdl_gets_the_assertions_unless_it_has_a_policy_and_then_the_log_says_so",
    ),
    guard(
        "the canonical form of SignedInfo",
        "security.signature:_prefixes_of_info",
        'if method.get("Algorithm") != EXCLUSIVE_C14N:',
        "if False:",
        f"{FORM}[SignedInfo in inclusive canonical XML]",
    ),
    guard(
        "header blocks of the protocols are signed",
        "security.party:_rebuilt",
        "elif name.namespace in _PROTOCOLS or tree.must_understand(block):",
        "elif tree.must_understand(block):",
        f"{MOVED}[unsigned_reply_to]",
    ),
    guard(
        "the Timestamp is signed",
        "security.party:Party._checked",
        "if times not in signed.elements or",
        "if",
        f"{FORM}[Timestamp not signed]",
    ),
    guard(
        "old messages",
        "security.timing:check_age",
        "if now > last:",
        "if False:",
        f"{SIGNATURES}::test_message_without_expires_is_not_taken_for_ever",
    ),
    guard(
        "the number of references",
        "security.signature:_referred",
        "if not 0 < len(references) <= MOST_REFERENCES:",
        "if not references:",
        f"{FORM}[40 references]",
    ),
    guard(
        "references into the message only",
        "security.signature:_referred",
        'if not uri.startswith("#") or "(" in uri:',
        "if False:",
        f"{FORM}[a file]",
    ),
    guard(
        "transforms",
        "security.signature:_referred",
        'if transform.get("Algorithm") != EXCLUSIVE_C14N:',
        "if False:",
        f"{FORM}[with comments]",
    ),
    Mutant(
        "security: algorithms of signatures",
        (
            Change(
                "mercury.security.signature:verify",
                "signature_methods=_METHODS,",
                "signature_methods=frozenset(SignatureMethod),",
            ),
            Change("mercury.security.signature:_referred", "not in _METHOD_NAMES:", "is None:"),
        ),
        test=f"{SIGNATURES}::test_signer_with_the_algorithm_of_sha_1_is_refused",
    ),
    guard(
        "names of the algorithms of signatures in errors",
        "security.signature:_referred",
        "not in _METHOD_NAMES:",
        "is None:",
        f"{SIGNATURES}::test_reason_does_not_repeat_the_algorithm_that_a_peer_has_written[SignatureMethod]",
    ),
    guard(
        "names of the algorithms of digests in errors",
        "security.signature:_referred",
        "not in _DIGEST_NAMES:",
        "is None:",
        f"{SIGNATURES}::test_reason_does_not_repeat_the_algorithm_that_a_peer_has_written[DigestMethod]",
    ),
    guard(
        "one pass for all references",
        "security.signature:_referred",
        "zip(tree.by_ids(named), prefixes, strict=True)",
        "zip([tree.by_id(each) for each in named], prefixes, strict=True)",
        f"{SIGNATURES}::test_all_referenced_elements_are_found_in_one_pass_over_the_message",
    ),
    guard(
        "identifiers of blocks that are signed",
        "security.keys:Keys.sign",
        "if content is not None or element.get(WSU_ID) is None:",
        "if element.get(WSU_ID) is None:",
        f"{SIGNATURES}::test_blocks_with_one_identifier_are_signed_with_identifiers_of_their_own",
    ),
    guard(
        "certificates that cannot be read",
        "security.certificates:read_certificate",
        "except Exception as error:",
        "except ValueError as error:",
        f"{CERTIFICATES}::test_certificate_that_the_library_cannot_read_is_refused[version 4]",
    ),
    guard(
        "keys of certificates are read at once",
        "security.certificates:read_certificate",
        "certificate.public_key()",
        "pass",
        f"{CERTIFICATES}::test_certificate_that_the_library_cannot_read_is_refused[an unknown curve]",
    ),
    guard(
        "extensions of certificates are read at once",
        "security.certificates:read_certificate",
        "list(certificate.extensions)",
        "pass",
        f"{CERTIFICATES}::test_certificate_that_the_library_cannot_read_is_refused[an extension twice]",
    ),
    guard(
        "threads for each network",
        "service.turns:Turns.call",
        "await found.free.acquire()",
        "pass",
        "tests/unit/service/test_turns.py::test_network_with_many_calls_leaves_threads_to_the_others",
    ),
    guard(
        "threads of calls that are cancelled",
        "service.turns:Turns.call",
        "await asyncio.shield(running)",
        "await running",
        "tests/unit/service/test_turns.py"
        "::test_cancelled_call_keeps_its_thread_until_it_ends_and_one_that_waits_gives_up_its_turn",
    ),
    guard(
        "threads for decoding",
        "service.endpoint:Endpoint._receive",
        "await turns.call(network_of(peer_of(scope)), decode)",
        "await asyncio.to_thread(decode)",
        f"{DECODING}::test_messages_of_one_network_leave_threads_to_the_others",
    ),
    guard(
        "body of a message that is decoded",
        "service.endpoint:Endpoint._receive",
        'http = replace(http, body=b"")',
        "pass",
        f"{DECODING}::test_the_body_of_a_decoded_message_is_freed_before_it_waits_for_the_committer",
    ),
    guard(
        "threads for signing",
        "service.endpoint:Endpoint._reply",
        "await turns.call(network, lambda: runtime.secured_reply(reply, self.service, verified))",
        "await asyncio.to_thread(runtime.secured_reply, reply, self.service, verified)",
        f"{DECODING}::test_answers_to_one_network_leave_threads_to_the_others",
    ),
    guard(
        "unknown keys of authorities",
        "security.certificates:_is_authority",
        "except (UnsupportedAlgorithm, x509.DuplicateExtension, ValueError):",
        "except (x509.DuplicateExtension, ValueError):",
        f"{CERTIFICATES}::test_odd_authority_in_the_file_issues_nothing_and_the_others_count[an unknown kind of key]",
    ),
    guard(
        "extensions of authorities that are there twice",
        "security.certificates:_is_authority",
        "except (UnsupportedAlgorithm, x509.DuplicateExtension, ValueError):",
        "except (UnsupportedAlgorithm, ValueError):",
        f"{CERTIFICATES}::test_odd_authority_in_the_file_issues_nothing_and_the_others_count[an extension twice]",
    ),
    guard(
        "versions of certificates in files",
        "security.certificates:read_certificates",
        "except (ValueError, x509.InvalidVersion) as error:",
        "except ValueError as error:",
        f"{CERTIFICATES}::test_files_that_cannot_be_used_are_named",
    ),
    guard(
        "errors of libraries",
        "security.party:Party._check",
        "except Exception as error:",
        "except ValueError as error:",
        f"{CERTIFICATES}::test_error_of_a_library_at_a_certificate_of_the_file_refuses_the_message",
    ),
    guard(
        "errors of the signer",
        "security.party:Party._secure",
        "except Exception as error:",
        "except ValueError as error:",
        f"{ENGINE}::test_message_that_cannot_be_signed_is_one_that_cannot_be_sent",
    ),
    guard(
        "answers that cannot be signed",
        "engine.message_security:SecurityParties.secured_reply",
        "except MessageRefused as error:",
        "except ZeroDivisionError as error:",
        f"{ENGINE}::test_answer_that_cannot_be_signed_becomes_status_500_and_few_log_lines",
    ),
    guard(
        "log lines about answers that cannot be signed",
        "engine.message_security:SecurityParties.secured_reply",
        'if self._may_log("not secured"):',
        "if True:",
        f"{ENGINE}::test_answer_that_cannot_be_signed_becomes_status_500_and_few_log_lines",
    ),
    guard(
        "elements beside the Body",
        "security.message:SoapTree.__init__",
        "children(self.root) != [each for each in (header, body) if each is not None]",
        "False",
        f"{SIGNATURES}::test_comment_beside_what_is_signed_hides_no_second_body",
    ),
    guard(
        "an element beside the encrypted content",
        "security.encryption:decrypt",
        " or len(children(tree.body)) != 1",
        "",
        f"{ENCRYPTION}::test_comment_beside_encrypted_content_hides_no_second_element",
    ),
    guard(
        "the charset of what was checked",
        "security.message:envelope_of",
        "plain_type(kind.soap, kind.action)",
        "http.content_type",
        f"{ENGINE}::test_signed_message_in_another_charset_is_delivered_as_it_was_signed[iso-8859-1-Content-Type]",
    ),
    guard(
        "Security headers in UTF-16 at the address for responses",
        "engine.message_security:SecurityParties.opened",
        "any(name in http.body for name in _WSSE)",
        "any(name in http.body for name in _WSSE[:1])",
        f"{ENGINE}::test_signed_message_at_the_address_for_responses_is_checked_in_every_charset[utf-16]",
    ),
    guard(
        "the length of log lines about refused messages",
        "engine.message_security:SecurityParties._checked",
        "[:_LENGTH]",
        "",
        f"{ENGINE}::test_log_line_about_a_refused_message_is_short_and_has_no_line_break_of_the_peer",
    ),
    guard(
        "line breaks in log lines about refused messages",
        "engine.message_security:SecurityParties._checked",
        "a message is refused: %r",
        "a message is refused: %s",
        f"{ENGINE}::test_log_line_about_a_refused_message_is_short_and_has_no_line_break_of_the_peer",
    ),
    guard(
        "log lines about unexpected errors of posts",
        "engine.runtime.posting:Posting._arrival",
        "if allowed:",
        "if True:",
        "tests/unit/engine/runtime/test_posting.py"
        "::test_unexpected_errors_of_posts_to_one_server_are_logged_once_in_an_interval",
    ),
    guard(
        "the length of a Content-Type in the error of an endpoint",
        "engine.runtime.posting:_unusable_reply",
        "[:_TYPE_LENGTH]",
        "",
        "tests/unit/engine/runtime/test_unexpected_errors.py"
        "::test_long_content_type_of_a_reply_is_cut_in_the_error_of_the_endpoint",
    ),
    guard(
        "the certificate is checked first",
        "security.signature:verify",
        "identity = identify(certificate)",
        'identity = ""',
        f"{SIGNATURES}::test_certificate_is_checked_before_anything_is_computed",
    ),
    guard(
        "only authorities issue certificates",
        "security.certificates:_is_authority",
        "if not constraints.ca or _strange",
        "if _strange",
        f"{SIGNATURES}::test_certificate_issued_by_a_client_is_refused",
    ),
    guard(
        "certificates expire",
        "security.certificates:_check_times",
        "if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:",
        "if False:",
        f"{CERTIFICATES}::test_certificate_of_an_expired_authority_is_refused",
    ),
    guard(
        "the token is in the Security header",
        "security.tokens:referred",
        "if token.tag != name or token.getparent() is not security:",
        "if token.tag != name:",
        f"{KEYS}[token_in_another_place]",
    ),
    guard(
        "the password",
        "security.username:check_username",
        "if not right or known is None:",
        "if known is None:",
        f"{USERS}::test_wrong_user_or_password_is_refused_for_one_reason",
    ),
    guard(
        "passwords as text",
        "security.username:check_username",
        "if not settings.plain_password:",
        "if False:",
        f"{USERS}::test_password_as_text_is_taken_only_where_the_settings_say_so",
    ),
    guard(
        "only authenticated encryption",
        "security.encryption:_unwrap",
        "except ValueError:\n        return other",
        'except ValueError as error:\n        raise Rejected("the key is wrong") from error',
        f"{ENCRYPTION}::test_altered_content_and_keys_are_refused_for_one_reason",
    ),
    guard(
        "the number of encrypted keys",
        "security.encryption:decrypt",
        "len(keys) != 1 or len(list(tree.root.iter(_DATA, _KEY))) != 2 or",
        "",
        f"{ENCRYPTION}::test_many_keys_are_refused_without_decrypting_one",
    ),
    guard(
        "decrypted content is scanned",
        "security.encryption:_replace",
        "Scanner(document, limits, levels=1).run()",
        "pass",
        f"{ENCRYPTION}::test_content_that_is_no_body_is_refused_after_decryption",
    ),
    guard(
        "copies",
        "engine.destination.replay:first_copies",
        "if verified is not None and verified.digest in seen:",
        "if False:",
        f"{STORIES}::test_copy_of_a_recorded_message_is_refused",
    ),
    guard(
        "the log lines about copies",
        "engine.destination.replay:first_copies",
        'if context.copies_log.allow("", now):',
        "if True:",
        f"{STORIES}::test_copies_are_one_line_a_minute_in_the_log",
    ),
    guard(
        "copies in one transaction",
        "engine.destination.replay:first_copies",
        "seen.add(verified.digest)",
        "pass",
        f"{STORIES}::test_two_copies_that_arrive_together_are_one_message",
    ),
    guard(
        "messages at the address of a client",
        "engine.destination.batch:Batch.is_proved",
        "return self.context.security.accepts(endpoint, envelope.verified, to=posted_to)",
        "return True",
        f"{STORIES}::test_forged_answers_at_the_address_of_a_client_do_not_count",
    ),
    guard(
        "replies on the connection",
        "engine.destination.reception:Reception.decode_reply",
        "http, verified = self._context.security.opened_reply(http, url, self._context.settings.limits)",
        "verified = None",
        f"{STORIES}::test_reply_on_the_connection_that_is_not_signed_does_not_count",
    ),
    guard(
        "the token of a bound sequence",
        "engine.destination.ownership:owns_destination",
        "if record.token is not None and record.token not in arrival.tokens:",
        "if False:",
        f"{STORIES}::test_bound_sequence_takes_nothing_under_a_renewed_certificate",
    ),
    guard(
        "copies of faults at the address of a client",
        "engine.message_security:SecurityParties.accepts",
        "return not elsewhere and party.accepts(verified, self._clock())",
        "return party.accepts(verified, self._clock())",
        f"{STORIES}::test_copy_of_a_fault_at_the_address_of_a_client_does_not_end_its_sequence",
    ),
    guard(
        "copies of faults on a connection",
        "engine.message_security:SecurityParties.answers",
        "return not signs or request.message_id is None or fault.relates_to == request.message_id",
        "return True",
        f"{STORIES}::test_copy_of_a_fault_on_the_connection_does_not_end_the_sequence",
    ),
    guard(
        "security of a place is that of the entries below it",
        "engine.runtime.security_settings:SecuritySettings.added_to",
        "is_below(url, where)",
        "place_of(url) == place_of(where)",
        f"{SETTINGS}::test_credentials_below_a_place_with_security_keep_the_security",
    ),
    guard(
        "security of the settings that is nearer than the one of the program",
        "engine.runtime.security_settings:SecuritySettings.added_to",
        "own.peer.security is None or len(own.path) < longest",
        "peer.security is None",
        f"{SETTINGS}::test_credentials_do_not_put_the_security_of_a_program_in_the_place_of_a_nearer_one",
    ),
    guard(
        "the spellings of one place in the settings",
        "engine.runtime.security_settings:SecuritySettings._by_place",
        'place_of(where) if "://" in where else where',
        "where",
        f"{SETTINGS}::test_spellings_of_a_url_are_one_place",
    ),
    guard(
        "two entries for one place",
        "engine.runtime.peers:Peers.__init__",
        "if any((known.origin, known.path) == (origin, path) for known in self._known):",
        "if False:",
        f"{SETTINGS}::test_two_entries_for_one_place_are_refused",
    ),
    guard(
        "offers of the identifier of a client's sequence",
        "engine.destination.creation:_is_taken",
        "return created is not None and created.service is not None",
        "return False",
        f"{STORIES}::test_offer_of_the_identifier_of_a_clients_sequence_is_declined",
    ),
)
