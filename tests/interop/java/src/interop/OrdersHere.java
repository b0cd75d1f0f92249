package interop;

/** The service as each server has it, in whichever stack: the journal gets what arrives. */
public class OrdersHere implements Orders {
    private final Journal journal;

    public OrdersHere(Journal journal) {
        this.journal = journal;
    }

    @Override
    public void note(Note note) {
        journal.add(note.cell, note.number);
    }

    @Override
    public Answer ask(Ask ask) {
        journal.add(ask.cell, ask.number);
        Answer answer = new Answer((long) ask.number * ask.number);
        answer.photo = ask.photo;
        return answer;
    }
}
