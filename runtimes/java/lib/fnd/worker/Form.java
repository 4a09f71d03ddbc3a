package fnd.worker;

import fnd.BadRequest;
import fnd.Upload;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Reads the forms of a request: {@code application/x-www-form-urlencoded} and {@code multipart/form-data} (RFC 7578).
 *
 * The body is in memory already, and {@code limits.body} bounds it. The reader is strict: whatever a browser or curl would not
 * send is a {@link BadRequest}. The headers of a part are read by {@link FormHeaders}.
 */
final class Form {
    private static final int PARTS_MAX = 1000;
    private static final int HEAD_MAX = 8 << 10;
    private static final int FIELDS_MAX = 10000;
    private static final Pattern BOUNDARY = Pattern.compile("[0-9A-Za-z'()+_,./:=?\\- ]{0,69}[0-9A-Za-z'()+_,./:=?\\-]");
    private static final Map<String, Charset> CHARSETS = Map.of(
        "utf-8", StandardCharsets.UTF_8, "utf8", StandardCharsets.UTF_8,
        "us-ascii", StandardCharsets.US_ASCII, "iso-8859-1", StandardCharsets.ISO_8859_1
    );
    final Map<String, List<String>> fields = new LinkedHashMap<>();
    final Map<String, List<Upload>> files = new LinkedHashMap<>();

    /** Where a boundary's line ends, and whether it is the last one. */
    private record LineEnd(int at, boolean isLast) {
    }

    static Form read(byte[] body, String contentType) {
        Form form = new Form();
        String kind = Payload.mediaType(contentType);
        if ("multipart/form-data".equals(kind)) {
            form.multipart(body, contentType);
        } else if ("application/x-www-form-urlencoded".equals(kind)) {
            form.urlencoded(new String(body, StandardCharsets.UTF_8));
        }
        return form;
    }

    private static <T> void add(Map<String, List<T>> values, String name, T value) {
        values.computeIfAbsent(name, unknown -> new ArrayList<>()).add(value);
    }

    private void urlencoded(String body) {
        if (body.chars().filter(character -> character == '&').count() >= FIELDS_MAX) {
            throw new BadRequest("the form has more than " + FIELDS_MAX + " fields");
        }
        for (String pair : body.split("&")) {
            int middle = pair.indexOf('=');
            String name = middle < 0 ? pair : pair.substring(0, middle);
            if (!pair.isEmpty()) {
                add(fields, decoded(name), middle < 0 ? "" : decoded(pair.substring(middle + 1)));
            }
        }
    }

    private static String decoded(String text) {
        // A `%` without two digits means itself; Java's decoder would refuse it.
        return URLDecoder.decode(text.replaceAll("%(?![0-9A-Fa-f]{2})", "%25"), StandardCharsets.UTF_8);
    }

    private void multipart(byte[] body, String contentType) {
        byte[] mark = ("\r\n--" + boundary(contentType)).getBytes(StandardCharsets.UTF_8);
        // The line break before the first boundary is optional.
        int first = begins(body, mark, 0) ? mark.length : mark.length - 2;
        if (first != mark.length && !begins(body, Arrays.copyOfRange(mark, 2, mark.length), 0)) {
            throw new BadRequest("the multipart body does not begin with its boundary");
        }
        LineEnd line = lineEnd(body, first);
        if (line == null) {
            throw new BadRequest("the first boundary of the multipart body is not a line of its own");
        }
        byte[] lines = {'\r', '\n', '\r', '\n'};
        for (int number = 1; !line.isLast(); number++) {
            if (number > PARTS_MAX) {
                throw new BadRequest("the multipart body has more than " + PARTS_MAX + " parts");
            }
            int headEnd = find(body, lines, line.at(), Math.min(body.length, line.at() + HEAD_MAX));
            if (headEnd < 0) {
                throw new BadRequest("the headers of part " + number + " do not end within 8 KiB");
            }
            FormHeaders headers = new FormHeaders(Arrays.copyOfRange(body, line.at(), headEnd));
            int end = contentEnd(body, headEnd + 2, mark);
            line = lineEnd(body, end + mark.length);
            // An empty part ends at the line break of its headers.
            byte[] data = Arrays.copyOfRange(body, headEnd + 4, Math.max(end, headEnd + 4));
            if (headers.filename == null) {
                add(fields, headers.name, text(data, headers));
            } else {
                String kind = headers.contentType.isEmpty() ? "application/octet-stream" : headers.contentType;
                add(files, headers.name, new Upload(headers.name, headers.filename, kind, data));
            }
        }
    }

    /** Returns where a content ends. It may have the boundary as the beginning of a longer line. */
    private static int contentEnd(byte[] body, int from, byte[] mark) {
        for (int at = find(body, mark, from, body.length); at >= 0; at = find(body, mark, at + 2, body.length)) {
            if (lineEnd(body, at + mark.length) != null) {
                return at;
            }
        }
        throw new BadRequest("the multipart body ends before its last boundary");
    }

    /** Returns the end of a boundary's line; null where it is none. */
    private static LineEnd lineEnd(byte[] body, int from) {
        if (begins(body, new byte[] {'-', '-'}, from)) {
            return new LineEnd(from, true);
        }
        int at = from;
        while (at < body.length && (body[at] == ' ' || body[at] == '\t')) {
            at++;
        }
        return begins(body, new byte[] {'\r', '\n'}, at) ? new LineEnd(at + 2, false) : null;
    }

    private static boolean begins(byte[] body, byte[] piece, int at) {
        return at + piece.length <= body.length && Arrays.equals(body, at, at + piece.length, piece, 0, piece.length);
    }

    /** Returns where a piece begins that lies between two places; -1 if there is none. */
    private static int find(byte[] body, byte[] piece, int from, int to) {
        for (int at = from; at + piece.length <= to; at++) {
            if (body[at] == piece[0] && begins(body, piece, at)) {
                return at;
            }
        }
        return -1;
    }

    private static String boundary(String contentType) {
        String value = FormHeaders.parameters(contentType).getOrDefault("boundary", "");
        if (!BOUNDARY.matcher(value).matches()) {
            throw new BadRequest("the content type `multipart/form-data` has no valid `boundary`");
        }
        return value;
    }

    private static String text(byte[] data, FormHeaders headers) {
        String charset = FormHeaders.parameters(headers.contentType).getOrDefault("charset", "utf-8").toLowerCase(Locale.ROOT);
        String shown = "the field `" + start(headers.name) + "`";
        if (!CHARSETS.containsKey(charset)) {
            throw new BadRequest(shown + " has the character set `" + start(charset) + "`, which is not supported");
        }
        try {
            return CHARSETS.get(charset).newDecoder().decode(ByteBuffer.wrap(data)).toString();
        } catch (CharacterCodingException invalid) {
            throw new BadRequest(shown + " is not " + charset);
        }
    }

    private static String start(String text) {
        return text.codePointCount(0, text.length()) <= 64 ? text : text.substring(0, text.offsetByCodePoints(0, 64));
    }
}
