package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Commands on the standard input, one a line: a serial number, a name, and words {@code key=value}, all separated by
 * tabs. Each is answered by one line: {@code @}, the number, {@code ok} or {@code failed}, and words. Several run at
 * once. When the input ends, so does the process: nothing is left behind when the test run is killed.
 */
public final class Commands {
    /** What one command does. */
    public interface Command {
        Map<String, Object> run(Map<String, String> words) throws Exception;
    }

    private final Map<String, Command> commands = new LinkedHashMap<>();

    public Commands on(String name, Command command) {
        commands.put(name, command);
        return this;
    }

    public void run() throws IOException {
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("@0\tok");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t");
            Map<String, String> words = new LinkedHashMap<>();
            for (int i = 2; i < parts.length; i++) {
                int equals = parts[i].indexOf('=');
                words.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
            }
            pool.submit(() -> answer(parts[0], parts[1], words));
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(String serial, String name, Map<String, String> words) {
        StringBuilder line = new StringBuilder("@" + serial);
        try {
            Map<String, Object> result = commands.get(name).run(words);
            line.append("\tok");
            result.forEach((key, value) -> line.append("\t" + key + "=" + clean(value)));
        } catch (Throwable error) {
            error.printStackTrace();
            line.append("\tfailed\terror=" + clean(error));
        }
        say(line.toString());
    }

    private static String clean(Object value) {
        return String.valueOf(value).replaceAll("\\s+", " ");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
