package interop;

import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlType;

/** A request: the cell it belongs to, and its place there; in some cells with binary content. */
@XmlAccessorType(XmlAccessType.FIELD)
@XmlType(name = "Ask", propOrder = {"cell", "number", "photo"})
public class Ask {
    public String cell;
    public int number;
    public byte[] photo;

    public Ask() {
    }

    public Ask(String cell, int number) {
        this.cell = cell;
        this.number = number;
    }
}
