package fnd;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicLong;

/** A file of a form. */
public final class Upload implements AutoCloseable {
    private static final int NAME_MAX = 255;
    /** Files that were written so far: {@code TMPDIR} belongs to this worker, so a number makes a name of its own. */
    private static final AtomicLong WRITTEN = new AtomicLong();
    private final String name;
    private final String rawFilename;
    private final String contentType;
    private final byte[] content;
    private Path path;

    public Upload(String name, String rawFilename, String contentType, byte[] content) {
        this.name = name;
        this.rawFilename = rawFilename;
        this.contentType = contentType;
        this.content = content;
    }

    /** Returns the name of the field. */
    public String name() {
        return name;
    }

    /** Returns the last component of the file name, which a handler may use in a directory of its own. */
    public String filename() {
        int from = Math.max(rawFilename.lastIndexOf('/'), rawFilename.lastIndexOf('\\')) + 1;
        int to = rawFilename.length();
        while (from < to && " \t".indexOf(rawFilename.charAt(from)) >= 0) {
            from++;
        }
        while (to > from && " \t".indexOf(rawFilename.charAt(to - 1)) >= 0) {
            to--;
        }
        String last = rawFilename.substring(from, to);
        if (last.isEmpty() || last.equals(".") || last.equals("..")) {
            return "empty";
        }
        int before = last.codePointCount(0, last.length()) - NAME_MAX;
        return before > 0 ? last.substring(last.offsetByCodePoints(0, before)) : last;
    }

    /** Returns the file name as it was sent. */
    public String rawFilename() {
        return rawFilename;
    }

    public String contentType() {
        return contentType;
    }

    public int size() {
        return content.length;
    }

    public byte[] read() {
        return content;
    }

    public String text() {
        return new String(content, StandardCharsets.UTF_8);
    }

    public InputStream stream() {
        return new ByteArrayInputStream(content);
    }

    /** Returns a file in {@code TMPDIR} with the content. It is removed when the call ends, unless the handler has moved it. */
    public synchronized Path path() throws IOException {
        if (path == null) {
            String directory = System.getenv().getOrDefault("TMPDIR", "/tmp");
            Path file = Path.of(directory, "upload-" + ProcessHandle.current().pid() + "-" + WRITTEN.incrementAndGet());
            path = Files.write(file, content, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW);
        }
        return path;
    }

    /** Writes the content to a file that does not exist yet, or into a directory under {@link #filename()}. */
    public Path save(Path destination) throws IOException {
        Path file = Files.isDirectory(destination) ? destination.resolve(filename()) : destination;
        return Files.write(file, content, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW);
    }

    /** Removes the file of {@link #path()}. The worker does it when the call ends. */
    @Override
    public synchronized void close() throws IOException {
        if (path != null) {
            Files.deleteIfExists(path);
        }
    }
}
