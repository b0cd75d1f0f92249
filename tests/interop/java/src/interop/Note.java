package interop;

import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlType;

/** A one-way message: the cell it belongs to, and its place there. */
@XmlAccessorType(XmlAccessType.FIELD)
@XmlType(name = "Note", propOrder = {"cell", "number"})
public class Note {
    public String cell;
    public int number;

    public Note() {
    }

    public Note(String cell, int number) {
        this.cell = cell;
        this.number = number;
    }
}
