// A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.
//
// It listens on the port in $PORT. What it prints is the log. Any framework works in the same way.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Http {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            int bytes = exchange.getRequestBody().readAllBytes().length;
            String path = exchange.getRequestURI().getPath().replace("\\", "\\\\").replace("\"", "\\\"");
            byte[] answer = ("{\"path\": \"" + path + "\", \"bytes\": " + bytes + "}").getBytes();
            exchange.getResponseHeaders().set("content-type", "application/json");
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }
}
