package fnd;

import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The HTTP request of an invocation. An invocation without one gets a request that would have started it. */
public interface Request {
    String method();

    /** Returns the path, percent-encoded as it came. */
    String path();

    /** Returns the text behind the {@code ?}. */
    String queryString();

    /** Returns the parameters behind the {@code ?} by name; the last value of each. */
    Map<String, String> query();

    /** Returns the headers by their names in lower case. */
    Map<String, String> headers();

    /** Returns the content type; null without one. */
    String contentType();

    byte[] body();

    /** Returns the body as text, in the character set of the content type. */
    String text();

    /** Returns the body as a value if the content type says JSON, else null. */
    Object json();

    /** Returns the fields of a form by name, urlencoded or multipart; none for a body of another type. */
    Map<String, List<String>> forms();

    /** Returns the files of a multipart form by the name of their field. */
    Map<String, List<Upload>> files();

    /** Returns the last value of a field; null if there is none. */
    default String form(String name) {
        List<String> values = forms().getOrDefault(name, List.of());
        return values.isEmpty() ? null : values.get(values.size() - 1);
    }

    /** Returns the last file of a field; null if there is none. */
    default Upload file(String name) {
        List<Upload> values = files().getOrDefault(name, List.of());
        return values.isEmpty() ? null : values.get(values.size() - 1);
    }

    /** Returns the parameters of the route by name. */
    Map<String, String> params();

    /** Returns the pattern of the route; like the four below, null without a route. */
    String route();

    String remoteAddr();

    String scheme();

    String host();

    String protocol();

    default String url() {
        return queryString().isEmpty() ? path() : path() + "?" + queryString();
    }

    /** Returns a header whatever the case of its name; null if there is none. */
    default String header(String name) {
        return headers().get(name.toLowerCase(Locale.ROOT));
    }

    default String header(String name, String otherwise) {
        String value = header(name);
        return value == null ? otherwise : value;
    }
}
