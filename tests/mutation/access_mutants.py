"""The guards of TLS and of identities, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

FILES = "tests/unit/engine/runtime/test_certificate_files.py"
AUTHORITIES = "tests/unit/service/test_authorities.py"
RENEWAL = "tests/acceptance/test_certificate_renewal.py"
ACCOUNTS = "tests/acceptance/test_accounts.py"
ENDPOINTS = "tests/scenario/test_authenticated_endpoints.py"
WARNINGS = "tests/scenario/test_warnings_about_peers.py"
PASSWORDS = "tests/unit/cli/test_passwords_in_urls.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"access: {name}", (Change(symbol, before, after),), test=test)


ACCESS = (
    guard(
        "a password in the URL of a server",
        "mercury.engine.addresses:split_server_url",
        "if parts.username is not None:",
        "if False:",
        f"{PASSWORDS}::test_call_of_a_process_shows_no_password_of_its_url",
    ),
    guard(
        "a password in a text that is no URL",
        "mercury.engine.addresses:split_url",
        '_USER.sub(r"\\1...@", url)',
        "url",
        f"{PASSWORDS}::test_fetching_a_document_shows_no_password_of_its_url",
    ),
    guard(
        "files that cannot be used change nothing",
        "mercury.engine.runtime.certificate_files:FileContext._look",
        "except ConfigurationError as error:",
        "except ZeroDivisionError as error:",
        f"{FILES}::test_unusable_files_are_read_once_and_again_when_they_change",
    ),
    guard(
        "unusable files are read once",
        "mercury.engine.runtime.certificate_files:FileContext._look",
        "self._read = state",
        "pass",
        f"{FILES}::test_unusable_files_are_read_once_and_again_when_they_change",
    ),
    guard(
        "files that are being written",
        "mercury.engine.runtime.certificate_files:FileContext._look",
        "if state == self._read or not still:",
        "if state == self._read:",
        f"{FILES}::test_file_that_is_rewritten_piece_by_piece_is_read_when_it_stays_the_same",
    ),
    guard(
        "a second authority beside the only one",
        "mercury.service.authorities:Authorities._check",
        "if not self._is_set and not self._with_issuer and count != 1:",
        "if False:",
        f"{AUTHORITIES}::test_further_authority_is_refused_when_identities_have_none",
    ),
    guard(
        "the number of authorities at the start",
        "mercury.service.authorities:Authorities.use",
        "elif self._with_issuer is None:",
        "if not self._is_set:",
        f"{AUTHORITIES}::test_number_of_authorities_at_the_start_decides_for_the_whole_process",
    ),
    guard(
        "names of authorities that stay",
        "mercury.service.authorities:Authorities.use",
        "self._names |= fresh | kept",
        "self._names |= fresh",
        f"{AUTHORITIES}::test_two_of_one_name_keep_their_names_when_one_goes_and_comes_back",
    ),
    guard(
        "a further authority of one name",
        "mercury.service.authorities:Authorities._check",
        "if names != {subject} or fresh[der] != subject:",
        "if False:",
        f"{AUTHORITIES}::test_authority_of_the_same_name_beside_the_previous_one_is_refused",
    ),
    guard(
        "the server's certificate beside authorities that are not used",
        "mercury.service.serving:_renewed",
        'authorities.context.load_cert_chain(tls.server_cert, tls.server_key, "")',
        "pass",
        f"{RENEWAL}::test_authority_that_would_change_identities_is_not_used_and_the_sender_goes_on",
    ),
    guard(
        "credentials of a path",
        "mercury.engine.runtime.peers:Peers.find",
        'and (each.path == "/" or not climbs(path))',
        "",
        "tests/acceptance/test_tls.py::test_path_that_climbs_gets_the_headers_of_the_whole_server_only",
    ),
    guard(
        "certificates that cannot be decoded",
        "mercury.service.tls_listener:TlsObject.getpeercert",
        "except ValueError as error:",
        "except ZeroDivisionError as error:",
        "tests/acceptance/test_certificates.py"
        "::test_certificate_with_a_name_that_is_not_text_closes_the_connection_and_is_logged_once",
    ),
    guard(
        "log lines of refused requests",
        "mercury.service.endpoint:Endpoint._identity",
        "and self._refusals.allow(network, asyncio.get_running_loop().time())",
        "",
        f"{ACCOUNTS}::test_refusals_of_a_network_are_logged_once_in_a_minute",
    ),
    guard(
        "imports that are no URLs",
        "mercury.cli.documents:_place_of",
        "except ValueError:",
        "except ZeroDivisionError:",
        "tests/acceptance/test_wsdl_command.py::test_import_that_is_no_url_is_named_and_left_out",
    ),
    guard(
        "the password of the name",
        "mercury.service.accounts:Accounts._by_password",
        "known = name if same_name & same else known",
        "known = name if same else known",
        f"{ACCOUNTS}::test_sender_that_shows_nothing_known_is_refused_with_401",
    ),
    guard(
        "secrets in texts of errors",
        "mercury.engine.runtime.credentials:_read",
        "except ConfigurationError:  #",
        "except ZeroDivisionError:  #",
        f"{ACCOUNTS}::test_setting_that_is_no_credential_is_refused_without_showing_it",
    ),
    guard(
        "warnings that a peer causes",
        "mercury.engine.destination.batch:Batch.warn",
        "if self.context.peer_log.allow(arrival.owner, self.now):",
        "if True:",
        f"{WARNINGS}::test_sequences_that_follow_one_of_another_service_are_not_all_logged",
    ),
    guard(
        "warnings about faults",
        "mercury.engine.destination.inbound_faults:faulted",
        "news = record.last_error != before and batch.context.peer_log.allow(exchange.arrival.owner, batch.now)",
        "news = record.last_error != before",
        f"{WARNINGS}::test_faults_whose_reasons_alternate_are_not_all_logged",
    ),
    guard(
        "acknowledgements that another peer asks for",
        "mercury.engine.destination.shared_acknowledgements:_carrier",
        "requested = exchange.acknowledge.keys() & {",
        "requested = {",
        "tests/scenario/test_ownership_of_sequences.py"
        "::test_owner_gets_its_acknowledgement_although_another_peer_asks_for_it_at_the_same_time",
    ),
    guard(
        "what is posted to a service about sequences of requests",
        "mercury.engine.destination.ownership:owns_source",
        "(not channel.reply_to.addressable or arrival.service is not None)",
        "not channel.reply_to.addressable",
        f"{ENDPOINTS}::test_message_to_a_service_ends_and_answers_nothing_that_this_side_has_sent",
    ),
    guard(
        "unused sequences of a peer at its limit",
        "mercury.engine.destination.quota:make_room",
        "[*_unused(batch, owner), *_idle(batch, owner)]",
        "_idle(batch, owner)",
        "tests/scenario/test_sequence_quota.py::test_unused_sequences_of_a_peer_make_room_for_its_own_after_a_minute",
    ),
    guard(
        "secrets that were written without quotes",
        "mercury.settings:explain",
        "secret=path in SECRETS",
        "secret=False",
        "tests/unit/test_settings.py::test_secret_without_quotes_is_refused_and_not_shown",
    ),
    guard(
        "variables of a Service beside a pod",
        "mercury.settings:explain",
        "        if _is_link(name, environment[name]):\n            continue",
        "        pass",
        "tests/unit/test_settings.py::test_variables_of_a_service_named_like_mercury_are_no_settings",
    ),
    guard(
        "variables of a Service named like a setting",
        "mercury.settings:explain",
        "if name in environment and _is_link(name, environment[name]):",
        "if False:",
        "tests/unit/test_settings.py::test_a_service_whose_variable_is_that_of_a_setting_is_an_error_that_says_so",
    ),
    guard(
        "line breaks behind tokens",
        "mercury.settings:explain",
        "value = value.strip()",
        "pass",
        "tests/unit/test_settings.py::test_a_line_break_behind_a_token_is_not_part_of_it",
    ),
    guard(
        "control characters in tokens",
        "mercury.console.settings:check_tokens",
        "(token != token.strip() or not token.isprintable())",
        "False",
        "tests/unit/test_settings.py::test_a_token_with_control_characters_is_refused_and_not_shown",
    ),
    guard(
        "tokens in errors of the command line",
        "mercury.cli.process_calls:bearer",
        "not token.isprintable() or any(ord(each) > LAST for each in token)",
        "False",
        f"{PASSWORDS}::test_token_that_no_request_can_show_is_refused_and_not_shown",
    ),
)
