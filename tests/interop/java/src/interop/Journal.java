package interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** What reached the application, in the order in which it did: lines of a file, which outlives the process. */
public final class Journal {
    private final Path file;

    public Journal(Path file) {
        this.file = file;
    }

    public synchronized void add(String cell, int number) {
        try {
            Files.writeString(file, cell + " " + number + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The numbers of one cell, with commas between. */
    public synchronized String of(String cell) throws IOException {
        List<String> lines = Files.exists(file) ? Files.readAllLines(file) : new ArrayList<>();
        return lines.stream().map(line -> line.split(" ")).filter(parts -> parts[0].equals(cell))
            .map(parts -> parts[1]).collect(Collectors.joining(","));
    }
}
