"""Writes the XML Schema of mapped classes, for the documents that `mercury.wire.mapping` writes.

The schema has a named type for each class and each enumeration. Elements are qualified and in the order of the fields;
attributes have no namespace. `mercury.wire.mapping` also reads some documents that the schema does not allow, for
example with the elements in another order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.mapping_plan import Fragment, Member, Nested, plan_of
from mercury.wire.mapping_types import Scalar
from mercury.wire.ns import clark
from mercury.wsdl.names import XSD

#: The class of a body that is raw XML: an element with any content.
Raw = bytes


def schema_of(namespace: str, elements: Mapping[str, type[Any]]) -> etree._Element:
    """Write a schema with global elements.

    :param namespace: the namespace of the elements and all elements in them; "" = none.
    :param elements: mapped classes by the names of the elements; ``bytes`` = an element with any content.
    :raises ConfigurationError: a class cannot be mapped, or a name or a value of an enumeration cannot stand in XML.
    """
    root = etree.Element(clark(XSD, "schema"), nsmap={"xs": XSD, **({"tns": namespace} if namespace else {})})
    if namespace:
        root.set("targetNamespace", namespace)
    root.set("elementFormDefault", "qualified")
    types = _Types(root, "tns:" if namespace else "")
    try:
        for name, cls in elements.items():
            element = etree.SubElement(root, clark(XSD, "element"), name=name)
            if cls is Raw:
                _anything(element)
            else:
                element.set("type", types.of_class(cls))
        types.write()
    except ValueError as error:
        raise ConfigurationError(f"no schema can be written: {error}") from error
    return root


class _Types:
    """The types of one schema. Each gets its name at the first reference to it, and is written once."""

    def __init__(self, root: etree._Element, prefix: str) -> None:
        self._root = root
        self._prefix = prefix
        self._names: dict[object, str] = {}
        self._taken: set[str] = set()
        self._classes: list[tuple[str, type[Any]]] = []

    def of_class(self, cls: type[Any]) -> str:
        name = self._names.get(cls)
        if name is None:
            name = self._name(cls, cls.__name__)
            self._classes.append((name, cls))
        return self._prefix + name

    def _of_enumeration(self, scalar: Scalar) -> str:
        key = (scalar.name, scalar.values)
        name = self._names.get(key)
        if name is None:
            name = self._name(key, scalar.name)
            _restrict(etree.SubElement(self._root, clark(XSD, "simpleType"), name=name), scalar)
        return self._prefix + name

    def _name(self, key: object, wanted: str) -> str:
        """A unique name: two classes of different modules may have the same name."""
        base = re.sub(r"^(?=[\W\d])|[^\w.-]", "_", wanted)
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}{number}"
        self._taken.add(name)
        self._names[key] = name
        return name

    def write(self) -> None:
        """Write the types of all classes that are referred to. Writing a type may add further ones to the list."""
        for name, cls in self._classes:
            plan = plan_of(cls)
            written = etree.SubElement(self._root, clark(XSD, "complexType"), name=name)
            sequence = etree.SubElement(written, clark(XSD, "sequence"))
            for member in plan.elements:
                self._element(etree.SubElement(sequence, clark(XSD, "element"), name=member.xml), member)
            for member in plan.attributes:
                self._attribute(etree.SubElement(written, clark(XSD, "attribute"), name=member.xml), member)

    def _element(self, element: etree._Element, member: Member) -> None:
        kind = member.kind
        if isinstance(kind, Nested):
            element.set("type", self.of_class(kind.cls))
        elif isinstance(kind, Fragment):
            _anything(element)
        else:
            self._scalar(element, kind)
        if member.many is not None or not member.required:
            element.set("minOccurs", "0")
        if member.many is not None:
            element.set("maxOccurs", "unbounded")
        if member.nil or (member.many is not None and member.optional):
            element.set("nillable", "true")

    def _attribute(self, attribute: etree._Element, member: Member) -> None:
        assert isinstance(member.kind, Scalar)
        self._scalar(attribute, member.kind)
        if member.required:
            attribute.set("use", "required")

    def _scalar(self, element: etree._Element, scalar: Scalar) -> None:
        if scalar.name:
            element.set("type", self._of_enumeration(scalar))
        elif scalar.values or scalar.pattern:
            _restrict(etree.SubElement(element, clark(XSD, "simpleType")), scalar)
        else:
            element.set("type", scalar.xsd)


def _restrict(simple: etree._Element, scalar: Scalar) -> None:
    restriction = etree.SubElement(simple, clark(XSD, "restriction"), base=scalar.xsd)
    for value in scalar.values:
        etree.SubElement(restriction, clark(XSD, "enumeration"), value=value)
    if scalar.pattern:
        etree.SubElement(restriction, clark(XSD, "pattern"), value=scalar.pattern)


def _anything(element: etree._Element) -> None:
    """Allow any content in ``element``."""
    content = etree.SubElement(element, clark(XSD, "complexType"), mixed="true")
    sequence = etree.SubElement(content, clark(XSD, "sequence"))
    any_ = {"namespace": "##any", "processContents": "skip", "minOccurs": "0", "maxOccurs": "unbounded"}
    etree.SubElement(sequence, clark(XSD, "any"), any_)
