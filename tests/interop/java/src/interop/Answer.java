package interop;

import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlType;

/** The response to an {@link Ask}: its number squared, and its binary content. */
@XmlAccessorType(XmlAccessType.FIELD)
@XmlType(name = "Answer", propOrder = {"square", "photo"})
public class Answer {
    public long square;
    public byte[] photo;

    public Answer() {
    }

    public Answer(long square) {
        this.square = square;
    }
}
