// A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
//
// Standard output and standard error are the log: `fndctl logs` shows it.
import java.time.Instant;

public class Service {
    public static void main(String[] arguments) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("stopping")));
        System.out.println("started");
        while (true) {
            System.out.println(Instant.now());
            Thread.sleep(10_000);
        }
    }
}
