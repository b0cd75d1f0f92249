"""The guards for WSDLs, policies and bodies, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

POLICY = "tests/unit/wsdl/test_policy.py::test_document_that_would_do_harm_is_refused"
FIRST = "tests/acceptance/test_wsdl_first.py"
PUBLISHED = "tests/acceptance/test_wsdl.py"
COMMAND = "tests/acceptance/test_wsdl_command.py"
WRITTEN = "tests/unit/wsdl/test_write.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"wsdl: {name}", (Change(symbol, before, after),), test=test)


WSDL = (
    guard(
        "document types",
        "mercury.wsdl.document:_Scanner._doctype",
        'raise refused("a DOCTYPE is not accepted")',
        "return",
        POLICY,
    ),
    guard(
        "policies that refer to themselves",
        "mercury.wsdl.alternatives:Normal.alternatives",
        "if depth > MAX_DEPTH:",
        "if False:",
        POLICY,
    ),
    guard(
        "redirects to another server",
        "mercury.cli.documents:_get",
        "if to == url or server_of(to) != server_of(url):",
        "if to == url:",
        f"{COMMAND}::test_imports_and_redirects_to_another_server_are_not_followed",
    ),
    guard(
        "the time for documents of a WSDL",
        "mercury.cli.documents:_in_time",
        "timeout=max(deadline - time.monotonic(), 0.0)",
        "timeout=None",
        f"{COMMAND}::test_server_that_sends_a_byte_now_and_then_is_given_up",
    ),
    guard(
        "files elsewhere",
        "mercury.wsdl.folder:Folder.place",
        "if not file.is_relative_to(self._path):",
        "if False:",
        f"{FIRST}::test_wsdl_that_cannot_be_served_is_refused",
    ),
    guard(
        "imports from other servers",
        "mercury.cli.documents:_may_be_read",
        'f"{path}/".startswith(f"{urlsplit(each).path.rstrip(\'/\')}/")',
        "True",
        f"{COMMAND}::test_imports_from_elsewhere_are_read_with_permission_and_named_without",
    ),
    guard(
        "requests by the schema",
        "mercury.wsdl.contract:WsdlContract._check",
        "_refuse_invalid(self._schema, xml)",
        "pass",
        f"{FIRST}::test_request_that_is_not_valid_is_answered_with_a_fault_and_not_handled",
    ),
    guard(
        "the name of the element",
        "mercury.service.definition:Service._read",
        "return read_body(payload, signature.body or bytes, namespace, element)",
        "return read_body(payload, signature.body or bytes, namespace)",
        f"{FIRST}::test_other_element_is_refused_by_a_service_of_typed_functions_too",
    ),
    guard(
        "the type of a response",
        "mercury.service.definition:Service._read",
        "not isinstance(result, accepted)",
        "False",
        "tests/unit/service/test_results.py"
        "::test_request_whose_handler_forgets_its_result_is_not_answered_with_an_empty_body",
    ),
    guard(
        "a handler that has not run",
        "mercury.service.definition:_called",
        "result is None or not (",
        "True or not (",
        "tests/unit/service/test_results.py"
        "::test_asynchronous_handler_behind_a_decorator_has_failed_and_consumes_nothing",
    ),
    guard(
        "the names of messages",
        "mercury.wsdl.write:_responses",
        "name in requests or name in found",
        "False",
        "tests/unit/wsdl/test_write.py::test_response_and_a_request_of_one_name_are_two_messages_of_two_names",
    ),
    guard(
        "the host of the request",
        "mercury.service.publishing:address_of",
        "if not host_in(host):",
        "if False:",
        f"{PUBLISHED}::test_host_that_is_none_is_refused",
    ),
    guard(
        "who may read it",
        "mercury.service.endpoint:Endpoint._publish",
        "            self._identity(scope, headers)\n            if which",
        "            if which",
        f"{PUBLISHED}::test_wsdl_is_refused_to_those_whose_messages_would_be_refused",
    ),
    guard(
        "names of outputs whose default name an input has",
        "mercury.wsdl.write:_name",
        "{} if",
        "{} if True or",
        f"{WRITTEN}::test_response_and_a_request_of_one_name_are_two_messages_of_two_names",
    ),
    guard(
        "no names of outputs that need none",
        "mercury.wsdl.write:_name",
        'if response == f"{request}Response"',
        "if False",
        f"{WRITTEN}::test_without_such_a_response_nothing_has_another_name",
    ),
)
