package fnd.worker;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;

/** Reads and writes frames on descriptor 3. */
final class Wire {
    static final int READY = 1;
    static final int INVOKE = 2;
    static final int BODY = 3;
    static final int RESULT = 4;
    static final int ERROR = 5;
    static final int LOG = 6;
    static final int STOP = 7;
    private static final int HEADER = 16;
    private static final int FRAME_MAX = 256 << 10;
    private static final int MORE = 1;
    private static final int OPTIONAL = 2;

    /** A whole message; its content is that of all its frames. */
    record Message(int type, long call, byte[] content) {
    }

    /** A message that is not complete. */
    private record Begun(int type, ByteArrayOutputStream content) {
    }

    private final InputStream reader;
    private final OutputStream writer;
    private final Map<Long, Begun> begun = new HashMap<>();

    /** Java has no public way to a descriptor by its number, and opening /dev/fd/3 does not work for a socket. */
    Wire() throws ReflectiveOperationException {
        Constructor<FileDescriptor> constructor = FileDescriptor.class.getDeclaredConstructor(int.class);
        constructor.setAccessible(true);
        FileDescriptor socket = constructor.newInstance(3);
        reader = new BufferedInputStream(new FileInputStream(socket), 64 << 10);
        writer = new FileOutputStream(socket);
    }

    /** Returns the next message, or null at the end of the socket. */
    Message next() throws IOException {
        while (true) {
            byte[] header = receive(HEADER);
            if (header == null) {
                return null;
            }
            ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
            int length = fields.getInt();
            int type = fields.get();
            int flags = fields.get();
            int reserved = fields.getShort();
            long call = fields.getLong();
            if (length < 0 || length > FRAME_MAX || reserved != 0) {
                throw new IOException("fnd sent an invalid frame");
            }
            byte[] content = receive(length);
            if (content == null) {
                return null;
            }
            if (type != INVOKE && type != BODY && type != STOP) {
                if ((flags & OPTIONAL) == 0) {
                    throw new IOException("fnd sent a frame of type " + type);
                }
                continue;
            }
            Begun before = begun.remove(call);
            if (before == null && (flags & MORE) == 0) {
                return new Message(type, call, content);
            }
            Begun all = before == null ? new Begun(type, new ByteArrayOutputStream()) : before;
            all.content.write(content);
            if ((flags & MORE) == 0) {
                return new Message(all.type, call, all.content.toByteArray());
            }
            begun.put(call, all);
        }
    }

    synchronized void send(long call, int type, byte[] content) {
        int at = 0;
        do {
            int size = Math.min(FRAME_MAX, content.length - at);
            int more = at + size < content.length ? MORE : 0;
            ByteBuffer frame = ByteBuffer.allocate(HEADER + size).order(ByteOrder.LITTLE_ENDIAN);
            frame.putInt(size).put((byte) (at == 0 ? type : BODY)).put((byte) more).putShort((short) 0).putLong(call);
            frame.put(content, at, size);
            try {
                writer.write(frame.array());
            } catch (IOException closed) {
                // fnd has closed the connection: no caller waits for the answer.
                Runtime.getRuntime().halt(0);
            }
            at += size;
        } while (at < content.length);
    }

    /** Returns as many bytes as asked for, or null if the socket ends before. */
    private byte[] receive(int size) {
        try {
            byte[] bytes = reader.readNBytes(size);
            return bytes.length == size ? bytes : null;
        } catch (IOException reset) {
            return null;
        }
    }
}
