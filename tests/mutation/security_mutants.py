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
STORIES = "tests/scenario/test_message_security.py"


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
        "security.message:SoapTree.by_id",
        "if len(found) != 1:",
        "if not found:",
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
    guard(
        "algorithms of signatures",
        "security.signature:verify",
        "signature_methods=_METHODS,",
        "signature_methods=frozenset(SignatureMethod),",
        f"{SIGNATURES}::test_signer_with_the_algorithm_of_sha_1_is_refused",
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
        "offers of the identifier of a client's sequence",
        "engine.destination.creation:_is_taken",
        "return created is not None and created.service is not None",
        "return False",
        f"{STORIES}::test_offer_of_the_identifier_of_a_clients_sequence_is_declined",
    ),
)
