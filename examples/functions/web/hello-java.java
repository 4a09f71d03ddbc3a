// Greets. GET of a route: the query is in a variable. Without a route: fndctl invoke web/hello-java
// /// fnd
// description = "Greets who is named in the query"
// labels = { team = "web" }
// on_load = false
// [limits]
// timeout = "30s"
// ///
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

class Hello {
    public static void main(String[] arguments) {
        String query = System.getenv().getOrDefault("QUERY_STRING", "");
        String name = "you";
        for (String pair : query.split("&")) {
            if (pair.startsWith("name=")) {
                name = URLDecoder.decode(pair.substring(5), StandardCharsets.UTF_8);
            }
        }
        System.out.println("hello, " + name);
    }
}
