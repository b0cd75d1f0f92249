"""Namespaces and algorithms of WS-Security 1.1, XML Signature and XML Encryption."""

from __future__ import annotations

from mercury.wire import ns

_OASIS = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-"
_TOKEN_PROFILE = _OASIS + "wss-username-token-profile-1.0"
_X509_PROFILE = _OASIS + "wss-x509-token-profile-1.0"

WSSE = ns.WSSE  # NS-15
WSSE11 = "http://docs.oasis-open.org/wss/oasis-wss-wssecurity-secext-1.1.xsd"
WSU = _OASIS + "wss-wssecurity-utility-1.0.xsd"
DS = "http://www.w3.org/2000/09/xmldsig#"
XENC = "http://www.w3.org/2001/04/xmlenc#"
XENC11 = "http://www.w3.org/2009/xmlenc11#"
SAML11 = "urn:oasis:names:tc:SAML:1.0:assertion"
SAML20 = "urn:oasis:names:tc:SAML:2.0:assertion"
EXCLUSIVE_C14N = "http://www.w3.org/2001/10/xml-exc-c14n#"

SECURITY = f"{{{WSSE}}}Security"
USERNAME_TOKEN = f"{{{WSSE}}}UsernameToken"
BINARY_TOKEN = f"{{{WSSE}}}BinarySecurityToken"
TOKEN_REFERENCE = f"{{{WSSE}}}SecurityTokenReference"
REFERENCE = f"{{{WSSE}}}Reference"
KEY_IDENTIFIER = f"{{{WSSE}}}KeyIdentifier"
TIMESTAMP = f"{{{WSU}}}Timestamp"
CREATED = f"{{{WSU}}}Created"
EXPIRES = f"{{{WSU}}}Expires"
WSU_ID = f"{{{WSU}}}Id"

PASSWORD_DIGEST = _TOKEN_PROFILE + "#PasswordDigest"
PASSWORD_TEXT = _TOKEN_PROFILE + "#PasswordText"
BASE64 = _OASIS + "wss-soap-message-security-1.0#Base64Binary"
X509V3 = _X509_PROFILE + "#X509v3"
SUBJECT_KEY_IDENTIFIER = _X509_PROFILE + "#X509SubjectKeyIdentifier"
THUMBPRINT = "http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1#ThumbprintSHA1"
