package interop;

import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlType;

/** The response to an {@link Ask}: its number squared. */
@XmlAccessorType(XmlAccessType.FIELD)
@XmlType(name = "Answer", propOrder = {"square"})
public class Answer {
    public long square;

    public Answer() {
    }

    public Answer(long square) {
        this.square = square;
    }
}
