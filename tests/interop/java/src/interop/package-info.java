@XmlSchema(namespace = "urn:mercury:interop", elementFormDefault = XmlNsForm.QUALIFIED)
package interop;

import jakarta.xml.bind.annotation.XmlNsForm;
import jakarta.xml.bind.annotation.XmlSchema;
