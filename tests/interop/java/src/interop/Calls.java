package interop;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;

/** What a client does in one cell, by whichever stack: it calls the service so many times, one after the other. */
public final class Calls {
    private Calls() {
    }

    /** Notes if {@code exchange=one-way}, else requests; says how many calls came back and which went wrong. */
    public static Map<String, Object> make(Orders orders, Map<String, String> words) {
        String cell = words.get("cell");
        int first = Integer.parseInt(words.getOrDefault("first", "1"));
        int count = Integer.parseInt(words.get("count"));
        int good = 0;
        int bad = 0;
        StringBuilder wrong = new StringBuilder();
        for (int number = first; number < first + count; number++) {
            try {
                call(orders, words, cell, number);
                good++;
            } catch (RuntimeException error) {
                error.printStackTrace();
                wrong.append(number).append(": ").append(error).append("; ");
                if (++bad == 3) {
                    wrong.append("gave up after ").append(number);
                    break; // each may have taken a minute
                }
            }
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("good", good);
        result.put("wrong", wrong);
        return result;
    }

    /** One call; it is made again while the stack says that it could not even begin a sequence. */
    private static void call(Orders orders, Map<String, String> words, String cell, int number) {
        for (int attempt = 1;; attempt++) {
            try {
                if (words.get("exchange").equals("one-way")) {
                    orders.note(new Note(cell, number));
                    return;
                }
                Ask ask = new Ask(cell, number);
                if (words.containsKey("photo")) {
                    ask.photo = new byte[Integer.parseInt(words.get("photo"))];
                    new Random(number).nextBytes(ask.photo);
                }
                Answer answer = orders.ask(ask);
                if (answer == null || answer.square != (long) number * number) {
                    throw new IllegalStateException("answer " + (answer == null ? "missing" : answer.square));
                }
                if (!Arrays.equals(ask.photo, answer.photo)) {
                    throw new IllegalStateException("another photo");
                }
                return;
            } catch (RuntimeException error) {
                if (attempt == 10 || !String.valueOf(error.getMessage()).contains("CreateSequence")) {
                    throw error;
                }
            }
        }
    }
}
